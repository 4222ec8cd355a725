"""Times, tracks and lanes of the events of one file, as arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceql.readers.lanes import lanes

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Timeline:
    """When and where the events of one kind ran, in the order of the file."""

    ts: Int64s  # start in the file's own time, ns
    dur: Int64s  # ns; 0 for events without a duration
    track: Int64s
    lane: Int64s

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def fed_dur(self) -> Int64s:
        """Durations for the trace processor, which does not accept negative ones."""
        return np.maximum(self.dur, 0)


def complete_timeline(ts: Int64s, dur: Int64s, track: Int64s) -> Timeline:
    """The timeline of complete events; those that overlap get lanes of their own."""
    return Timeline(ts, dur, track, lanes(track, ts, np.maximum(dur, 0)))


def point_timeline(ts: Int64s, track: Int64s, slices: Timeline) -> Timeline:
    """The timeline of instants or flow ends.

    If a slice of their track starts at the same time, they are on the lane of that slice.
    """
    lane = np.zeros(len(ts), np.int64)
    moved = np.flatnonzero(slices.lane)
    lane_of = {(slices.track[i], slices.ts[i]): slices.lane[i] for i in moved}
    for i in np.flatnonzero(np.isin(ts, slices.ts[moved])):
        lane[i] = lane_of.get((track[i], ts[i]), 0)
    return Timeline(ts, np.zeros(len(ts), np.int64), track, lane)
