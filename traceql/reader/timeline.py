"""The events of one file as arrays: exact times, dense tracks, lanes for what overlaps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt
from traceql.reader.decimal_ns import nanoseconds
from traceql.reader.kineto_json import ABSENT, Event, Raw
from traceql.reader.lanes import lanes
from traceql.reader.tracks import Tracks

Int64s = npt.NDArray[np.int64]
_ZERO = Raw(b"0")
_NO_DURATION = {b"", b"null"}


@dataclass(frozen=True)
class Timeline:
    """Events of one phase, in the file's order, with the arrays that describe them."""

    events: Sequence[Event]
    ts: Int64s  # the file's own time, ns
    dur: Int64s  # ns; zero for events without one
    track: Int64s
    lane: Int64s

    @property
    def fed_dur(self) -> Int64s:
        """Durations as the trace processor can take them, which knows no negative ones."""
        return np.maximum(self.dur, 0)


def complete_events(events: Sequence[Event], tracks: Tracks) -> Timeline:
    ts, track = _times(events), tracks.of(events)
    dur = _durations(events)
    return Timeline(events, ts, dur, track, lanes(track, ts, np.maximum(dur, 0)))


def point_events(events: Sequence[Event], tracks: Tracks, slices: Timeline) -> Timeline:
    """Instants, or the ends of flows: these follow a slice that starts with them to its lane."""
    ts, track = _times(events), tracks.of(events)
    lane = np.zeros(len(events), np.int64)
    moved = np.flatnonzero(slices.lane)
    lane_of = {(slices.track[i], slices.ts[i]): slices.lane[i] for i in moved}
    for i in np.flatnonzero(np.isin(ts, slices.ts[moved])):
        lane[i] = lane_of.get((track[i], ts[i]), 0)
    return Timeline(events, ts, np.zeros(len(events), np.int64), track, lane)


def _times(events: Sequence[Event]) -> Int64s:
    try:
        return nanoseconds([e.ts for e in events])
    except TraceCorrupt:
        for event in events:
            if event.ts is ABSENT:
                name = str(event.name)[:60]
                raise TraceCorrupt(f'event "{name}" has no "ts"; the trace is damaged') from None
        raise


def _durations(events: Sequence[Event]) -> Int64s:
    texts = [e.dur for e in events]
    try:
        return nanoseconds(texts)
    except TraceCorrupt:
        return nanoseconds([_ZERO if bytes(t) in _NO_DURATION else t for t in texts])
