"""The events of one file as arrays: exact times, dense tracks, lanes for what overlaps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt
from traceql.reader.kineto.decimal_ns import nanoseconds
from traceql.reader.kineto.kineto_json import ABSENT, Event, Raw
from traceql.reader.lanes import lanes

Int64s = npt.NDArray[np.int64]
_ZERO = Raw(b"0")
_NO_DURATION = {b"", b"null"}


@dataclass(frozen=True)
class Timeline:
    """Where and when events of one kind are, in the file's order."""

    ts: Int64s  # the file's own time, ns
    dur: Int64s  # ns; zero for events without one
    track: Int64s
    lane: Int64s

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def fed_dur(self) -> Int64s:
        """Durations as the trace processor can take them, which knows no negative ones."""
        return np.maximum(self.dur, 0)


def complete_timeline(ts: Int64s, dur: Int64s, track: Int64s) -> Timeline:
    """Complete events, with a lane for each."""
    return Timeline(ts, dur, track, lanes(track, ts, np.maximum(dur, 0)))


def point_timeline(ts: Int64s, track: Int64s, slices: Timeline) -> Timeline:
    """Instants, or the ends of flows: these follow a slice that starts with them to its lane."""
    lane = np.zeros(len(ts), np.int64)
    moved = np.flatnonzero(slices.lane)
    lane_of = {(slices.track[i], slices.ts[i]): slices.lane[i] for i in moved}
    for i in np.flatnonzero(np.isin(ts, slices.ts[moved])):
        lane[i] = lane_of.get((track[i], ts[i]), 0)
    return Timeline(ts, np.zeros(len(ts), np.int64), track, lane)


def times(events: Sequence[Event]) -> Int64s:
    """When each event starts, ns.

    Raises:
        TraceCorrupt: one has no time, or one that does not fit 64 bits.
    """
    try:
        return nanoseconds([e.ts for e in events])
    except TraceCorrupt:
        for event in events:
            if event.ts is ABSENT:
                name = str(event.name)[:60]
                raise TraceCorrupt(f'event "{name}" has no "ts"; the trace is damaged') from None
        raise


def durations(texts: Sequence[Raw]) -> Int64s:
    """How long each event lasts, ns; 0 where the file says nothing."""
    try:
        return nanoseconds(texts)
    except TraceCorrupt:
        return nanoseconds([_ZERO if bytes(t) in _NO_DURATION else t for t in texts])
