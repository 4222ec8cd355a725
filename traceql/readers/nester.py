"""Parents and depths of slices, and the slices of flow ends, of many tracks at a time.

Slices that nest are placed all at once. `TrackNesting` takes the others, one after the other.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traceql.readers.coded import runs
from traceql.readers.enclosing import enclosing
from traceql.readers.track_nesting import LATE_END, NONE, SLICE, Nested, TrackNesting

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_FEW = 200  # slices of a track: one after the other takes no longer than all at once
_LARGEST_TIME = 2**62 - 1  # that can be doubled


class Bound(NamedTuple):
    """Flow ends that were bound to slices."""

    end: Int64s  # the number of the end
    slice: Int64s  # the number of its slice
    slice_ts: Int64s  # the start of that slice, ns
    at: Int64s  # the time at which it is bound, ns: its own, or that of the next slice
    is_late: Bools  # whether it is bound to the next slice


class Placed(NamedTuple):
    """What was found for some events."""

    parent: Int64s  # the slice that encloses each slice; -1 at the top
    depth: Int64s  # how many slices enclose it
    overlapping: int  # how many slices overlap others without nesting
    bound: Bound  # the ends of flows that found their slices, in any order


class _Events(NamedTuple):
    """Slices and ends of flows; the columns are those of `Nester.add`."""

    ts: Int64s
    dur: Int64s
    number: Int64s
    kind: Int64s

    def at(self, rows: slice | Int64s | Bools) -> "_Events":
        return _Events(*(column[rows] for column in self))


class Nester:
    """Takes events; what is open on a track goes on with the next events."""

    def __init__(self) -> None:
        self._tracks: defaultdict[int, TrackNesting] = defaultdict(TrackNesting)

    def add(self, track: Int64s, ts: Int64s, dur: Int64s, number: Int64s, kind: Int64s) -> Placed:
        """Takes slices and flow ends, those of a track in the order that `TrackNesting` wants.

        Args:
            track: number of the track.
            ts: start of a slice or time of an end, ns.
            dur: duration of a slice, ns, not negative.
            number: the number of a slice among all slices, or of an end among all ends.
            kind: SLICE, END or LATE_END.
        """
        events = _Events(ts, dur, number, kind)
        found = [_one_by_one(TrackNesting(), events.at(slice(0)))]
        for own in runs(track):
            found.append(_placed(self._tracks[int(track[own.start])], events.at(own)))
        parent, depth, overlapping, bound = zip(*found, strict=True)
        nested = np.concatenate(parent), np.concatenate(depth)
        return Placed(*nested, sum(overlapping), _joined(bound))


def _placed(track: TrackNesting, events: _Events) -> Placed:
    """The places of events of one track."""
    is_slice = events.kind == SLICE
    slices = events.at(is_slice)
    open_ = track.open_at(int(slices.ts[0])) if len(slices.ts) >= _FEW else None
    if open_ is None:
        return _one_by_one(track, events)
    last = max([int(slices.ts[-1]) + int(slices.dur.max()), *(end // 2 for end, _ in open_)])
    if int(slices.ts[0]) < -_LARGEST_TIME or last > _LARGEST_TIME:  # too large to be doubled
        return _one_by_one(track, events)
    before = len(open_)
    begin, finish = slices.ts * 2, slices.ts * 2 + slices.dur * 2 + (slices.dur == 0)
    begin = np.concatenate((np.full(before, begin[0]), begin))
    finish = np.concatenate((np.array([end for end, _ in open_], np.int64), finish))
    number = np.concatenate((np.array([slice_ for _, slice_ in open_], np.int64), slices.number))
    found = enclosing(begin, finish)
    latest = np.cumsum(is_slice) - 1  # the last slice that has begun; -1 for none
    is_single = (latest < 0) | found.is_tangled[before + latest]
    # Late ends that are taken one by one wait for the slice after them, so that it is, too.
    is_single |= np.insert(is_single[:-1], 0, True)
    singles = _one_by_one(track, events.at(is_single))
    parent = np.where(found.parent < 0, NONE, number[found.parent])[before:]
    depth = found.depth[before:]
    parent[is_single[is_slice]], depth[is_single[is_slice]] = singles.parent, singles.depth
    if not found.is_tangled[-1]:
        opened, innermost = [], len(number) - 1
        while innermost >= 0:
            opened.append((int(finish[innermost]), int(number[innermost])))
            innermost = int(found.parent[innermost])
        track.go_on(opened[::-1], int(slices.ts[-1]))
    of_rest = ~is_single & ~is_slice
    ends, is_late = events.at(of_rest), events.kind[of_rest] == LATE_END
    to = latest[of_rest] + is_late
    is_waiting = to == len(slices.ts)
    track.wait(ends.number[is_waiting].tolist())
    ends, is_late, to = ends.at(~is_waiting), is_late[~is_waiting], to[~is_waiting]
    at = np.where(is_late, slices.ts[to], ends.ts)
    bound = Bound(ends.number, slices.number[to], slices.ts[to], at, is_late)
    return Placed(parent, depth, singles.overlapping, _joined([singles.bound, bound]))


def _one_by_one(track: TrackNesting, events: _Events) -> Placed:
    found = Nested()
    ts, dur, number, kind = (column.tolist() for column in events)
    track.add(ts, dur, number, kind, found)
    columns = (found.end, found.bound, found.bound_ts, found.at)
    end, to, to_ts, at = (np.array(column, np.int64) for column in columns)
    bound = Bound(end, to, to_ts, at, np.array(found.is_late, np.bool_))
    parent, depth = np.array(found.parent, np.int64), np.array(found.depth, np.int64)
    return Placed(parent, depth, found.overlapping, bound)


def _joined(parts: Sequence[Bound]) -> Bound:
    return Bound(*map(np.concatenate, zip(*parts, strict=True)))
