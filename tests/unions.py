"""Unions of intervals, and of a rank's GPU time, straight from its file."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import databases
from databases import gpu_events

Interval = tuple[int, int]


class Activity(NamedTuple):
    """Unions of a rank's GPU time, in the file's own time; all of these traces use one device."""

    window: Interval
    compute: list[Interval]
    comm: list[Interval]
    copy: list[Interval]


def gpu_activity(run: str, path: Path) -> Activity:
    categories = {
        row["name"]: row["category"]
        for row in databases.trace(run).sql("SELECT name, category FROM kernel_class")
    }
    of_class: defaultdict[str, list[Interval]] = defaultdict(list)
    for event in gpu_events(path):
        category = categories[event.name] if event.cat == "kernel" else "memcpy"
        part = {"collective": "comm", "memcpy": "copy", "memset": "copy"}.get(category, "compute")
        of_class[part].append((event.ts, event.ts + event.dur))
    whole = union(interval for part in of_class.values() for interval in part)
    compute, comm, copy = (union(of_class[part]) for part in ("compute", "comm", "copy"))
    return Activity((whole[0][0], whole[-1][1]), compute, comm, copy)


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
