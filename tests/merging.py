"""Merges the traces of several ranks as other programs do, which give processes other ids."""

from collections.abc import Callable
from typing import Any

Trace = dict[str, Any]
Merge = Callable[[int, Any], Any]  # the pid in the merged file, from rank and pid


def labelled(template: str) -> Merge:
    return lambda rank, pid: template.format(rank=rank, pid=pid, letter=chr(ord("a") + rank))


def offset(step: int, *, first: int = 0) -> Merge:
    return lambda rank, pid: pid + (rank + first) * step if type(pid) is int else pid


LABELS = {
    "sglang": labelled("[TP{rank:02}] {pid}"),
    "places": labelled("[TP{rank:02}-DP00-PP00-EP00] {pid}"),
    "dp": labelled("[DP{rank}-TP0] {pid}"),
    "words": labelled("rank {rank}: {pid}"),
    "behind": labelled("{pid} (Rank {rank})"),
    "short": labelled("r{rank}_{pid}"),
    "alone": labelled("rank{rank}"),
    "numbers": lambda rank, pid: rank,
    "hosts": labelled("host{letter}:{pid}"),
    "offset": offset(1_000_000),
    "small offset": offset(10_000),
    "offset from 1": offset(100_000, first=1),
}


def merged(ranks: dict[int, Trace], pid_of: Merge) -> Trace:
    """All events, with other pids; lists of devices joined; other keys of the first file."""
    found: Trace = {"traceEvents": [], "deviceProperties": []}
    for rank, trace in ranks.items():
        found["deviceProperties"] += trace.get("deviceProperties", [])
        for event in trace["traceEvents"]:
            pid = {"pid": pid_of(rank, event["pid"])} if "pid" in event else {}
            found["traceEvents"].append(event | pid)
        found = trace | found
    return found
