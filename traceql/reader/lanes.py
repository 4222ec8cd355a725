"""Spreads events that overlap without nesting over lanes, since a track holds only nested ones.

The trace processor drops an event that begins inside another of its track and outlives it. On
Hopper and Blackwell consecutive kernels of a stream do so (programmatic dependent launch).
"""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
_NEVER = 2**64
_DEEPEST = 500  # the trace processor drops what is nested 512 deep


def lanes(track: Int64s, ts: Int64s, dur: Int64s) -> Int64s:
    """One lane number per event, 0 wherever the events of its track nest.

    Args:
        track: dense track number of each event.
        ts: start, ns.
        dur: duration, ns, not negative.
    """
    lane = np.zeros(len(track), np.int64)
    if not len(track):
        return lane
    # Of events that start together the longest is the outermost; doubled times leave room for an
    # empty event to be open at its own start.
    start, end = ts * 2, (ts + dur) * 2 + (dur == 0)
    by_track = np.argsort(track, kind="stable")
    borders = np.flatnonzero(np.diff(track[by_track])) + 1
    for members in np.split(by_track, borders):
        members = members[_outermost_first(start[members], end[members])]
        if not _nested(start[members], end[members]):
            touching = members[_touching(start[members], end[members])]
            lane[touching] = _first_fit(start[touching].tolist(), end[touching].tolist())
    return lane


def _outermost_first(start: Int64s, end: Int64s) -> Int64s:
    """The order by start; files are nearly in it, which makes a stable sort fast."""
    order = np.argsort(start, kind="stable")
    tied = np.flatnonzero(_of_a_pair(np.diff(start[order]) == 0))
    among = order[tied]
    order[tied] = among[np.lexsort((-end[among], start[among]))]
    return order


def _touching(start: Int64s, end: Int64s) -> npt.NDArray[np.bool_]:
    """True for each interval, sorted by start, that shares time with another."""
    return _of_a_pair(start[1:] < np.maximum.accumulate(end)[:-1])


def _of_a_pair(pairs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """True for both members of each pair of neighbours for which `pairs` is."""
    return np.append(pairs, False) | np.insert(pairs, 0, False)


def _nested(start: Int64s, end: Int64s) -> bool:
    """True if these intervals, sorted by (start, -end), are disjoint or nested, not too deeply.

    An event's depth is the number of earlier events still open at its start; its parent is the
    last earlier event one level up. All nest exactly if every parent outlives its child.
    """
    closed = np.searchsorted(np.sort(end), start, side="right")
    depth = np.arange(len(start)) - closed
    if depth.max() >= _DEEPEST:
        return False
    parents = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max()) + 1):
        children = np.flatnonzero(depth == level)
        earlier = np.searchsorted(parents, children)
        if not len(children) or not earlier.all():
            return False
        if (end[parents[earlier - 1]] < end[children]).any():
            return False
        parents = children
    return True


def _first_fit(start: list[int], end: list[int]) -> list[int]:
    """The first lane of each event, sorted by (start, -end), in which it nests or stands free."""
    lanes: list[list[int]] = []
    first = [_NEVER]  # the ends of the events open in it, the innermost last
    found = []
    for begin, finish in zip(start, end, strict=True):
        while first[-1] <= begin:
            first.pop()
        if finish <= first[-1] and len(first) <= _DEEPEST:
            first.append(finish)
            found.append(0)
        else:
            found.append(1 + _fit(lanes, begin, finish))
    return found


def _fit(lanes: list[list[int]], begin: int, finish: int) -> int:
    """Opens an event in the first lane that takes it, and returns the lane."""
    for lane, ends in enumerate(lanes):
        while ends[-1] <= begin:
            ends.pop()
        if finish <= ends[-1] and len(ends) <= _DEEPEST:
            ends.append(finish)
            return lane
    lanes.append([_NEVER, finish])
    return len(lanes) - 1
