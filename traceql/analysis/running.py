"""Finds which kinds of activity run on a device at any time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Running:
    """The intervals of one device in which its activity does not change.

    Attributes:
        ts: the start of each interval, ns.
        dur: its duration, ns; never 0.
        kinds: for each kind of activity, whether one of that kind runs in each interval.
    """

    ts: Int64s
    dur: Int64s
    kinds: dict[str, Bools]

    @classmethod
    def of(cls, activities: Mapping[str, tuple[Int64s, Int64s]], *, span: tuple[int, int]) -> Self:
        """Counts the starts and ends of activities.

        Args:
            activities: for each kind, the starts of its activities, ns, and their ends, ns, none of
                which is before its start.
            span: start and end of the time that the intervals cover, ns; what lies outside does not
                count.
        """
        edges, kinds = [np.array(span)], [np.zeros(len(span), np.int8)]
        for number, (ts, end_ts) in enumerate(activities.values(), 1):
            edges += [np.clip(ts, *span), np.clip(end_ts, *span)]
            kinds += [np.full(len(ts), number, np.int8), np.full(len(ts), -number, np.int8)]
        instants, kind = np.concatenate(edges), np.concatenate(kinds)
        order = np.argsort(instants, kind="stable")  # quick, as most activities come in order
        instants, kind = instants[order], kind[order]
        # Of several edges at one instant, only the last one has an interval after it. Its running
        # sum includes the others.
        last = np.flatnonzero(instants[1:] != instants[:-1])
        running = {}
        for number, what in enumerate(activities, 1):
            change = np.subtract(kind == number, kind == -number, dtype=np.int32)
            running[what] = (np.cumsum(change, dtype=np.int32) > 0)[last]
        return cls(instants[last], np.diff(np.append(instants[last], instants[-1])), running)


def last_running(ts: Int64s, end_ts: Int64s, instants: Int64s) -> Int64s:
    """The place of the activity that began last, of those that run at each instant.

    Args:
        ts: the start of each activity, ns; sorted.
        end_ts: its end, ns; not before its start.
        instants: times at which at least one of them runs, ns.
    """
    found = np.searchsorted(ts, instants, side="right") - 1
    searched = np.flatnonzero(end_ts[found] <= instants)
    kept = np.arange(len(ts))
    while len(searched):
        # If the one that began last has ended, the wanted one ends after the one that follows it.
        kept = kept[:-1][end_ts[kept[:-1]] > end_ts[kept[1:]]]
        last = kept[np.searchsorted(ts[kept], instants[searched], side="right") - 1]
        found[searched] = last
        searched = searched[end_ts[last] <= instants[searched]]
    return found
