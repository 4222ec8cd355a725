"""Flows of a file, and the slices that their ends bind to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceql.readers.timeline import FLOW_BEGINS, FLOW_FINISHES, Timeline

Int64s = npt.NDArray[np.int64]
EndKind = tuple[str, object, object, object]  # phase, name, category, binding


@dataclass(frozen=True)
class Flows:
    """Ends of flows in this order: those that begin one, those in between, those that finish it."""

    ends: Timeline
    kinds: Sequence[EndKind]  # the distinct kinds of end
    kind: Int64s  # of each end, its position in `kinds`
    number: Int64s  # of each end, the number of its flow; ids of the file may repeat

    @property
    def finishes(self) -> int:
        """The number of ends that finish a flow."""
        finishes = np.array([phase == FLOW_FINISHES for phase, *_ in self.kinds], np.bool_)
        return int(finishes[self.kind].sum())


_NOTHING = np.empty(0, np.int64)
NO_FLOWS = Flows(Timeline(_NOTHING, _NOTHING, _NOTHING, _NOTHING), [], _NOTHING, _NOTHING)


_LARGEST_KEY = 2**62


@dataclass(frozen=True)
class BoundEnds:
    """Which ends of flows are fed as part of a slice.

    Attributes:
        slice: the index of the slice that carries each end; -1 if the end is fed as an event.
        begins: whether each end begins a flow.
    """

    slice: Int64s
    begins: npt.NDArray[np.bool_]


def bound_ends(
    flows: Flows, *, place: Int64s, ts: Int64s, dur: Int64s, end_place: Int64s, end_ts: Int64s
) -> BoundEnds:
    """The ends that slices can carry: of each flow all ends or none.

    Args:
        place: the lane and thread of each slice as one number, from 0; `end_place` for flow ends.
        ts: the start of each slice, from 0; `end_ts` is the time of each flow end.
        dur: duration of each slice.
    """
    phase, binding = (np.array([kind[n] for kind in flows.kinds], object) for n in (0, 3))
    begins = (phase == FLOW_BEGINS)[flows.kind]
    enclosed = ((phase == FLOW_FINISHES) & (binding == "e"))[flows.kind]
    at = _only_slice(place, ts, end_place, end_ts)
    found = (at >= 0) & (begins | enclosed)
    found[found] = dur[at[found]] > 0
    found[found] = (np.bincount(at[found], minlength=len(ts)) == 1)[at[found]]
    return BoundEnds(np.where(found & _whole(flows.number, begins, end_ts, found), at, -1), begins)


def _only_slice(place: Int64s, ts: Int64s, end_place: Int64s, end_ts: Int64s) -> Int64s:
    """The only slice at the place of an end that starts at its time; -1 if none or several do."""
    nothing = np.full(len(end_ts), -1)
    if not len(ts) or not len(end_ts):
        return nothing
    span = int(max(ts.max(), end_ts.max())) + 1
    if (int(max(place.max(), end_place.max())) + 1) * span > _LARGEST_KEY:
        return nothing
    key = place * span + ts
    order = np.argsort(key, kind="stable")
    starts = key[order]
    wanted = end_place * span + end_ts
    first = np.minimum(np.searchsorted(starts, wanted), len(starts) - 1)
    again = np.append(starts[1:] == starts[:-1], False)
    return np.where((starts[first] == wanted) & ~again[first], order[first], -1)


def _whole(
    number: Int64s, begins: npt.NDArray[np.bool_], ts: Int64s, found: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether the flow of each end begins once, first, and has all its ends in `found`."""
    flows = int(number.max(initial=-1)) + 1
    begin_ts = np.zeros(flows, np.int64)
    begin_ts[number[begins]] = ts[begins]
    broken = np.bincount(number[begins], minlength=flows) != 1
    broken[number[~found | ~begins & (ts <= begin_ts[number])]] = True
    whole: npt.NDArray[np.bool_] = ~broken[number]
    return whole
