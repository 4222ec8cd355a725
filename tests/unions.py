"""Unions of intervals, and of a rank's GPU time, straight from its file."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import databases
from databases import gpu_events, rank_files

Interval = tuple[int, int]

# Runs with all their ranks, in which the n-th operation of every rank is the same one.
IN_ORDER = (
    "qwen3-32b-tp4-graph-nccl",
    "qwen3-8b-tp2-eager-stack-4layers",
    "qwen3-30b-a3b-tp4-ep-graph",
    "qwen3-30b-a3b-tp2-ep-eager-stack-6layers",
    databases.SERVING,
)


class Activity(NamedTuple):
    """Unions of a rank's GPU time, in the file's own time; all of these traces use one device.

    wait, transfer and unmatched are of the operations in comm: until the last rank began, from then
    on, and of those that were not found on all ranks.
    """

    window: Interval
    compute: list[Interval]
    comm: list[Interval]
    copy: list[Interval]
    transfer: list[Interval]
    unmatched: list[Interval]
    wait: list[Interval]


def gpu_activity(run: str, path: Path) -> Activity:
    of_class: defaultdict[str, list[Interval]] = defaultdict(list)
    for start, end, part in _parts(run, path):
        of_class[part].append((start, end))
    wait_ns = waits(run, path)
    for start, end in of_class["comm"]:
        wait = wait_ns[start, end]
        if wait is None:
            of_class["unmatched"].append((start, end))
        else:
            of_class["wait"].append((start, start + wait))
            of_class["transfer"].append((start + wait, end))
    whole = union(interval for part in of_class.values() for interval in part)
    parts = (union(of_class[part]) for part in Activity._fields[1:])
    return Activity((whole[0][0], whole[-1][1]), *parts)


@cache
def _parts(run: str, path: Path) -> list[tuple[int, int, str]]:
    """Start, end and class of each activity."""
    categories = {
        row["name"]: row["category"]
        for row in databases.trace(run).select("SELECT name, category FROM kernel_class")
    }
    classes = {"collective": "comm", "memcpy": "copy", "memset": "copy"}
    return [
        (event.ts, event.ts + event.dur, classes.get(category, "compute"))
        for event in gpu_events(path)
        for category in [categories[event.name] if event.cat == "kernel" else "memcpy"]
    ]


@cache
def waits(run: str, path: Path) -> dict[Interval, int | None]:
    """The wait time of each operation of a file, None where it was not found on all its ranks.

    Of the runs in IN_ORDER it is calculated from the starts on all ranks, which have one clock.
    """
    if run not in IN_ORDER:
        return {
            (row["ts"], row["ts"] + row["dur"]): row["wait_ns"]
            for row in databases.trace(run).sql(_WAITS, {"path": str(path)})
        }
    begun, own = [], []
    for file in rank_files(run):
        operations = sorted(
            (start + file.offset_ns, end + file.offset_ns)
            for start, end, part in _parts(run, file.path)
            if part == "comm"
        )
        begun.append([start for start, _ in operations])
        if file.path == path:
            own, offset_ns = operations, file.offset_ns
    return {
        (start - offset_ns, end - offset_ns): min(end - start, max(starts) - start)
        for (start, end), *starts in zip(own, *begun, strict=True)
    }


_WAITS = """
    SELECT kernel.ts - trace.file_offset_ns AS ts, kernel.dur, collective.wait_ns
    FROM trace
    INNER JOIN collective USING (rank)
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    WHERE trace.path = $path
"""


def union(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def clipped(intervals: Iterable[Interval], window: Interval) -> Iterator[Interval]:
    for start, end in intervals:
        if start < window[1] and end > window[0]:
            yield max(start, window[0]), min(end, window[1])


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)
