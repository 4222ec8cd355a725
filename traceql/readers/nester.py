"""Parents and depths of slices, and the slices of flow ends, of many tracks at a time.

Slices that nest are placed all at once. `TrackNesting` takes the others, one after the other.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traceql.readers.dictionary_codes import runs
from traceql.readers.lanes import DEEPEST, NEVER, OtherLanes, enclosing

NONE = -1  # no slice
SLICE, END, LATE_END = range(3)  # an end is bound to the last slice, a late one to the next slice


@dataclass
class Nested:
    """What was found: an entry of the lists for each slice, and for each flow end that was bound.

    Attributes:
        parent: the slice that encloses it; -1 at the top.
        depth: how many slices enclose it.
        overlapping: how many slices are in other lanes than the first.
        end: the flow end.
        bound: its slice.
        bound_ts: the start of its slice, ns.
        at: the time at which it is bound, ns: its own, or that of the next slice.
        is_late: whether it is bound to the next slice.
    """

    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    overlapping: int = 0
    end: list[int] = field(default_factory=list)
    bound: list[int] = field(default_factory=list)
    bound_ts: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    is_late: list[bool] = field(default_factory=list)


class TrackNesting:
    """Takes the slices and flow ends of one track in the order of time.

    Of slices that begin together, the longest comes first, then they are in the order of the file;
    a flow end comes after the slices that begin with it.
    """

    def __init__(self) -> None:
        self._ends = [NEVER]  # twice the ends of the open slices of lane 0, the innermost last
        self._ids = [NONE]
        self._others = OtherLanes()
        self._open: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # of other lanes
        self._begun: dict[int, tuple[int, int]] = {}  # the last slice of each lane, and its start
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)  # late ends by lane
        self._moved = (NONE, NONE, 0)  # start, index and lane of the last slice in another lane

    def add(
        self,
        ts: Sequence[int],
        dur: Sequence[int],
        number: Sequence[int],
        kind: Sequence[int],
        found: Nested,
    ) -> None:
        """Takes slices and ends.

        Args:
            ts: start of a slice or time of an end, ns.
            dur: duration of a slice, ns, not negative.
            number: the number of a slice among the slices of the file, or of an end among its ends.
            kind: SLICE, END or LATE_END.
            found: gets the result.
        """
        ends, ids = self._ends, self._ids
        parents, depths = found.parent, found.depth
        # Times are doubled so that an event without a duration can end after its own start.
        for start, lasts, event, what in zip(ts, dur, number, kind, strict=True):
            if what:
                self._add_end(start, event, what, found)
                continue
            begin = start * 2
            finish = begin + lasts * 2 + (not lasts)
            while ends[-1] <= begin:
                ends.pop()
                ids.pop()
            depth = len(ends)
            if finish <= ends[-1] and depth <= DEEPEST:
                depths.append(depth - 1)
                parents.append(ids[-1])
                ends.append(finish)
                ids.append(event)
                self._begun[0] = event, start
                if self._waiting:
                    self._bind_waiting(0, found)
            else:
                self._add_elsewhere(begin, finish, event, found)

    def open_at(self, ts: int) -> list[tuple[int, int]] | None:
        """Twice the ends, and the numbers, of the slices that are open then, the outermost first.

        None if one of them is not in lane 0.
        """
        if any(open_ and open_[0][0] > ts * 2 for open_ in self._open.values()):
            return None
        opened = list(zip(self._ends, self._ids, strict=True))[1:]
        return [(end, number) for end, number in opened if end > ts * 2]

    def go_on(self, opened: Sequence[tuple[int, int]], last_ts: int) -> None:
        """Goes on after slices that have been placed in lane 0.

        Args:
            opened: what is open after the last slice, which is the innermost.
            last_ts: the start of the last slice.
        """
        self._ends[1:], self._ids[1:] = (list(one) for one in zip(*opened, strict=True))
        self._begun[0] = opened[-1][1], last_ts

    def wait(self, late_ends: Sequence[int]) -> None:
        """Takes late ends for the next slice of lane 0."""
        if late_ends:
            self._waiting[0] += late_ends

    def _add_elsewhere(self, begin: int, finish: int, event: int, found: Nested) -> None:
        """Takes a slice that does not nest in lane 0."""
        start = begin // 2
        lane = 1 + self._others.opened(begin, finish)
        found.overlapping += 1
        moved_start, moved_event, _ = self._moved
        if moved_start != start or moved_event < event:
            self._moved = (start, event, lane)
        open_ = self._open[lane]
        while open_ and open_[-1][0] <= begin:
            open_.pop()
        found.depth.append(len(open_))
        found.parent.append(open_[-1][1] if open_ else NONE)
        open_.append((finish, event))
        self._begun[lane] = event, start
        self._bind_waiting(lane, found)

    def _add_end(self, ts: int, end: int, kind: int, found: Nested) -> None:
        """Takes a flow end, in the lane of the slice that begins with it."""
        moved_start, _, moved_lane = self._moved
        lane = moved_lane if moved_start == ts else 0
        if kind == LATE_END:
            self._waiting[lane].append(end)
        elif lane in self._begun:
            _bind(end, self._begun[lane], ts, found, is_late=False)

    def _bind_waiting(self, lane: int, found: Nested) -> None:
        for end in self._waiting.pop(lane, ()):
            _bind(end, self._begun[lane], self._begun[lane][1], found, is_late=True)


def _bind(end: int, to: tuple[int, int], at: int, found: Nested, *, is_late: bool) -> None:
    found.end.append(end)
    found.bound.append(to[0])
    found.bound_ts.append(to[1])
    found.at.append(at)
    found.is_late.append(is_late)


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
        """Takes slices and flow ends, those of a track in the order that `TrackNesting` needs.

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
