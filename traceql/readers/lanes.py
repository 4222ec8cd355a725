"""Distributes events that overlap without nesting over several lanes of their track.

A track of the trace processor can only hold events that nest: it drops an event that begins inside
another event and ends after it. On Hopper and Blackwell, consecutive kernels of a stream overlap
like that (programmatic dependent launch).
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
DEEPEST = 500  # the trace processor drops events that are nested 512 deep


@dataclass(frozen=True)
class Enclosing:
    """What was found of each interval.

    A cluster is a part of the time in which some interval is always open. Parents and depths are
    right unless the cluster is tangled: there, intervals overlap without nesting, or too many nest.

    Attributes:
        parent: the place of the innermost interval that encloses it; -1 at the top.
        depth: how many intervals enclose it.
        is_tangled: whether its cluster is.
    """

    parent: Int64s
    depth: Int64s
    is_tangled: Bools


def enclosing(begin: Int64s, finish: Int64s) -> Enclosing:
    """The parents of intervals that are sorted by begin, those that begin together by -finish.

    The depth of an interval is the number of earlier ones that are open at its begin; its parent is
    the last earlier one that is one level up. All nest if and only if none ends after its parent.

    Args:
        begin: the begins.
        finish: the ends, each of which is after its begin.
    """
    count = len(begin)
    closed = np.searchsorted(np.sort(finish), begin, side="right")
    depth = np.minimum(np.arange(count) - closed, DEEPEST)
    by_depth = np.argsort(depth.astype(np.int16), kind="stable")
    place = depth[by_depth] * count + by_depth
    above = by_depth[np.searchsorted(place, place - count) - 1]
    parent = np.empty(count, np.int64)
    parent[by_depth] = np.where(depth[by_depth] > 0, above, -1)
    is_wrong = (depth == DEEPEST) | ((parent >= 0) & (finish[parent] < finish))
    if not is_wrong.any():
        return Enclosing(parent, depth, is_wrong)
    cluster = np.cumsum(begin[1:] >= np.maximum.accumulate(finish)[:-1])
    cluster = np.insert(cluster, 0, 0)
    return Enclosing(parent, depth, np.isin(cluster, cluster[is_wrong]))


NEVER = 2**65  # after every doubled time
_MANY_TRACKS = 1000  # more than this many would take long one by one
_LARGEST_TIME = 2**62 - 1  # that can be doubled


def lanes(track: Int64s, ts: Int64s, dur: Int64s) -> Int64s:
    """The lane number of each event: 0 if all events of its track nest.

    Args:
        track: track number of each event, from 0 without holes.
        ts: start, ns.
        dur: duration, ns; must not be negative.
    """
    lane = np.zeros(len(track), np.int64)
    if not len(track):
        return lane
    end_ts = ts + dur
    if track.max() >= _MANY_TRACKS or max(-int(ts.min()), int(end_ts.max())) >= _LARGEST_TIME:
        ts, end_ts = _in_one_row(track, ts, end_ts)
        track = np.zeros_like(track)
    # If events start together, the longest encloses the others. Times are doubled so that an event
    # without a duration can end after its own start.
    start, end = ts * 2, end_ts * 2 + (dur == 0)
    by_track = np.argsort(track, kind="stable")
    borders = np.flatnonzero(np.diff(track[by_track])) + 1
    for members in np.split(by_track, borders):
        members = members[_outermost_first(start[members], end[members])]
        tangled = members[enclosing(start[members], end[members]).is_tangled]
        lane[tangled] = _first_fit(start[tangled].tolist(), end[tangled].tolist())
    return lane


def _in_one_row(track: Int64s, ts: Int64s, end_ts: Int64s) -> tuple[Int64s, Int64s]:
    """Small times in the same order, those of each track after those of the tracks before it."""
    instants = np.unique(np.concatenate((ts, end_ts)))
    offset = track * len(instants)
    return np.searchsorted(instants, ts) + offset, np.searchsorted(instants, end_ts) + offset


def _outermost_first(start: Int64s, end: Int64s) -> Int64s:
    """Positions in the order of start, longest first among events that start together.

    Events in files are nearly in this order, which makes a stable sort fast.
    """
    order = np.argsort(start, kind="stable")
    tied = np.flatnonzero(_of_a_pair(np.diff(start[order]) == 0))
    among = order[tied]
    order[tied] = among[np.lexsort((-end[among], start[among]))]
    return order


def _of_a_pair(pairs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """True for both neighbors of every pair that is true in `pairs`."""
    return np.append(pairs, False) | np.insert(pairs, 0, False)


def _first_fit(start: list[int], end: list[int]) -> list[int]:
    """For each event, sorted by (start, -end), lane 0 or another where it nests or is alone."""
    others = OtherLanes()
    first = [NEVER]  # ends of the events that are open in lane 0, the innermost last
    found = []
    for begin, finish in zip(start, end, strict=True):
        while first[-1] <= begin:
            first.pop()
        if finish <= first[-1] and len(first) <= DEEPEST:
            first.append(finish)
            found.append(0)
        else:
            found.append(1 + others.opened(begin, finish))
    return found


class OtherLanes:
    """Lanes sorted by the end of their innermost open event, so that none has to be searched for.

    There can be as many lanes as events: events that all overlap each other need one each.
    """

    def __init__(self) -> None:
        self._ends: list[list[int]] = []  # of the open events of each lane, the innermost last
        self._closing: list[tuple[int, int]] = []  # a heap: end of the innermost event, lane
        self._fitting: list[tuple[int, int]] = []  # the same, sorted, of lanes that are not full

    def opened(self, begin: int, finish: int) -> int:
        """Opens an event in the lane where it fits most closely; returns the lane's number."""
        self._close(begin)
        at = bisect_left(self._fitting, (finish, 0))
        if at < len(self._fitting):
            lane = self._fitting.pop(at)[1]
        else:
            lane = len(self._ends)
            self._ends.append([NEVER])
        self._ends[lane].append(finish)
        heappush(self._closing, (finish, lane))
        self._offer(lane)
        return lane

    def _close(self, now: int) -> None:
        """Closes the events that have ended."""
        while self._closing and self._closing[0][0] <= now:
            end, lane = heappop(self._closing)
            at = bisect_left(self._fitting, (end, lane))
            if at < len(self._fitting) and self._fitting[at] == (end, lane):
                del self._fitting[at]
            self._ends[lane].pop()
            self._offer(lane)

    def _offer(self, lane: int) -> None:
        """Lists a lane, by its innermost event, if another event can nest in it."""
        if len(self._ends[lane]) <= DEEPEST:
            insort(self._fitting, (self._ends[lane][-1], lane))
