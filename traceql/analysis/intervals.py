"""Intervals of time: what runs on a device at any time, and how much time lies in intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Elapsed:
    """A set of intervals. If intervals overlap, their time counts once for each of them."""

    starts: Int64s  # sorted, ns
    ends: Int64s  # sorted, ns
    _starts_sum: Int64s
    _ends_sum: Int64s

    @classmethod
    def of(cls, ts: Int64s, dur: Int64s) -> Self:
        """From starts and durations in any order, ns; no duration may be negative."""
        starts, ends = np.sort(ts), np.sort(ts + dur)
        return cls(starts, ends, _sums(starts), _sums(ends))

    def before(self, instants: Int64s) -> Int64s:
        """Total time in the intervals before each instant, ns.

        The sums of instants may wrap around at 64 bits; their difference is right all the same.
        """
        begun = np.searchsorted(self.starts, instants)
        ended = np.searchsorted(self.ends, instants)
        since_starts = begun * instants - self._starts_sum[begun]
        since_ends = ended * instants - self._ends_sum[ended]
        elapsed: Int64s = since_starts - since_ends
        return elapsed

    def between(self, begin: Int64s, end: Int64s) -> Int64s:
        """Total time in the intervals from each begin to its end, ns."""
        return self.before(end) - self.before(begin)

    def passes(self, begin: Int64s, end: Int64s) -> Bools:
        """Whether time in the intervals passes from each begin to its end; quicker than `between`.

        No interval may be empty, and each end comes after its begin.
        """
        begun = np.searchsorted(self.starts, end)
        ended: Int64s = np.searchsorted(self.ends, begin, side="right")
        return begun > ended


def _sums(instants: Int64s) -> Int64s:
    """The sums of the first 0, 1, 2 ... instants."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(instants)))


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


def places(sorted_numbers: Int64s, wanted: Int64s) -> Int64s:
    """The first place of each wanted number; -1 if it is not there."""
    place = np.searchsorted(sorted_numbers, wanted)
    place[place == len(sorted_numbers)] = -1
    place[at(sorted_numbers, place) != wanted] = -1
    return place


def at(numbers: Int64s, place: Int64s) -> Int64s:
    """The number at each place; -1 at place -1."""
    return np.append(numbers, -1)[place]


def known(numbers: Int64s, *, where: Bools | None = None) -> pa.Array:
    """The numbers, but NULL instead of negative ones, or except `where` they are known."""
    return pa.array(numbers, mask=~where if where is not None else numbers < 0)
