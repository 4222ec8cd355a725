"""Arrows between events, and the connections of tasks that only arrows tell."""

from bisect import bisect_right
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from traceql.readers.dialects.ascend.vocabulary import Category
from traceql.readers.formats.ascend.events import CANN, AscendEvents
from traceql.readers.phases import FLOW_BEGINS, FLOW_FINISHES

Int64s = npt.NDArray[np.int64]
OF_OPERATORS = "async_npu"  # the category of arrows from an operator to a task
_TO_DEVICE = "HostToDevice"  # the category of arrows from a call of CANN to a task


def ends(events: AscendEvents, category: str, phase: str) -> list[tuple[int, tuple[int, int]]]:
    """The number of each arrow that has such an end, and the track and the time of the end."""
    flows = events.parsed.flows
    chosen = np.array([(p, cat) == (phase, category) for p, _, cat, _ in flows.kinds], np.bool_)
    at = np.flatnonzero(chosen[flows.kind]) if len(chosen) else np.empty(0, np.int64)
    places = zip(flows.ends.track[at].tolist(), flows.ends.ts[at].tolist(), strict=True)
    return list(zip(flows.number[at].tolist(), places, strict=True))


def by_start(events: AscendEvents, at: Int64s) -> dict[tuple[int, int], int]:
    """The event at each track and time, of those given."""
    slices = events.parsed.slices
    places = zip(slices.track[at].tolist(), slices.ts[at].tolist(), strict=True)
    return dict(zip(places, at.tolist(), strict=True))


def connections(events: AscendEvents) -> Int64s:
    """The number that a call and its tasks share; -1 if an event has none.

    A task whose number no call has gets that of the call in which its arrow begins.
    """
    found = events.connection.copy()
    calls = np.flatnonzero(events.on(CANN) & (found >= 0))
    tasks = np.flatnonzero(events.of(Category.KERNEL, Category.MEMCPY, Category.COMMUNICATION))
    alone = tasks[~np.isin(found[tasks], found[calls])]
    begun = dict(ends(events, _TO_DEVICE, FLOW_BEGINS)) if len(alone) else {}
    if not begun:
        return found
    around = _Around(events, calls)
    tasks_at = by_start(events, alone)
    for number, place in ends(events, _TO_DEVICE, FLOW_FINISHES):
        task, origin = tasks_at.get(place), begun.get(number)
        if task is not None and origin and (call := around(*origin)) is not None:
            found[task] = found[call]
    return found


class _Around:
    """The innermost of some events that runs on a track at a time."""

    def __init__(self, events: AscendEvents, at: Int64s) -> None:
        slices = events.parsed.slices
        self._end_ts = slices.ts + slices.dur
        self._by_track: defaultdict[int, list[int]] = defaultdict(list)
        for index in at[np.lexsort((-slices.dur[at], slices.ts[at]))].tolist():
            self._by_track[int(slices.track[index])].append(index)
        self._starts = {t: slices.ts[members].tolist() for t, members in self._by_track.items()}

    def __call__(self, track: int, ts: int) -> int | None:
        members = self._by_track[track]
        last = bisect_right(self._starts.get(track, []), ts)
        running = (index for index in reversed(members[:last]) if self._end_ts[index] >= ts)
        return next(running, None)
