"""The slices or instants of a file as arrays, and the phases of Chrome's trace format."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt
from traceql.readers.lanes import lanes

COMPLETE = "X"
METADATA = "M"
INSTANTS = frozenset("iIRn")
FLOW_BEGINS, FLOW_PASSES, FLOW_FINISHES = FLOW_ENDS = ("s", "t", "f")


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


_LARGEST_NS = 2.0**63


def require_total_fits(dur: npt.NDArray[np.int64]) -> None:
    """Raises TraceCorrupt if the durations, in ns, add up to more than 64 bits can hold."""
    require_sum_fits(absolute_sum(dur))


def absolute_sum(dur: npt.NDArray[np.int64]) -> float:
    """The sum of the durations without their signs, ns; it cannot overflow."""
    return float(np.abs(dur.astype(np.float64)).sum())


def require_sum_fits(total: float) -> None:
    """Raises TraceCorrupt if a sum of durations, in ns, is more than 64 bits can hold."""
    if total >= _LARGEST_NS:
        raise TraceCorrupt(
            "events last more than 292 years in all; one of their durations is wrong"
        )
