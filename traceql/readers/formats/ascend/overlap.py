"""Overlap Analysis: computed anew from the other tracks, to compare with the profiler's own."""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from traceql.readers.dialects.ascend.vocabulary import IS_KERNEL_OF_COMMUNICATION, Category
from traceql.readers.formats.ascend.events import AscendEvents
from traceql.readers.formats.ascend.side_counters import STEPS, step_rows
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.remarks import Remark

Int64s = npt.NDArray[np.int64]
_NOTE = (
    "time as the tasks of the trace give it; as the profiler's Overlap Analysis says, ns (it cuts "
    "the starts of tasks to whole ns but not their ends, so they may differ by 1 ns an interval)"
)
_STEP_NOTE = f"time as the tasks of the trace give it; as {STEPS} says, ns (rounded to 250 ns)"
_LARGEST_US = 2.0**50
_GRAIN_NS = 250  # of sums that the profiler computes with Unix time in a double
_OTHER_COMMUNICATION = re.compile(IS_KERNEL_OF_COMMUNICATION)


def overlap_remarks(events: AscendEvents, files: SideFiles) -> Iterator[Remark]:
    """One statement for each of the profiler's sums that the files have.

    Those of step_trace_time.csv are compared if it has one row, which then is for the whole trace.
    """
    own, given, steps = recomputed(events), _given(events), step_rows(files)
    tasks = int(events.of(Category.KERNEL, Category.COMMUNICATION).sum())
    for name, total in own.items():
        if name in given:
            theirs, intervals = given[name]
            ok = abs(total - theirs) <= intervals + 1
            yield Remark(f"overlap analysis: {name}", total, theirs, ok, _NOTE)
        if len(steps) == 1 and abs(steps[0].get(name, _LARGEST_US)) < _LARGEST_US:
            theirs = round(steps[0][name] * 1000)
            ok = abs(total - theirs) <= tasks + _GRAIN_NS
            yield Remark(f"{STEPS}: {name}", total, theirs, ok, _STEP_NOTE)


def recomputed(events: AscendEvents) -> dict[str, int]:
    """The time of each kind, ns: copies and waits for events count as free."""
    slices = events.parsed.slices
    is_other = np.array([bool(_OTHER_COMMUNICATION.search(n)) for n in events.names], np.bool_)
    compute = events.of(Category.KERNEL) & ~is_other
    comm = events.of(Category.COMMUNICATION)
    of_compute = covered(slices.ts[compute], slices.dur[compute])
    of_comm = covered(slices.ts[comm], slices.dur[comm])
    both = compute | comm
    of_both = covered(slices.ts[both], slices.dur[both])
    ends = slices.ts[both] + slices.dur[both]
    window = int(ends.max() - slices.ts[both].min()) if both.any() else 0
    return {
        "Computing": of_compute,
        "Communication": of_comm,
        "Communication(Not Overlapped)": of_both - of_compute,
        "Free": window - of_both,
    }


def covered(ts: Int64s, dur: Int64s) -> int:
    """The time that intervals cover, ns, each instant once."""
    order = np.argsort(ts, kind="stable")
    begin, end = ts[order], ts[order] + np.maximum(dur[order], 0)
    until = np.maximum.accumulate(end) if len(end) else end
    before = np.concatenate((begin[:1], until[:-1]))
    return int(np.maximum(until - np.maximum(begin, before), 0).sum())


def _given(events: AscendEvents) -> dict[str, tuple[int, int]]:
    """The profiler's own sums, ns, and the number of intervals in each."""
    found: dict[str, tuple[int, int]] = {}
    dur = events.parsed.slices.dur
    for index in np.flatnonzero(events.of(Category.OVERLAP)).tolist():
        total, intervals = found.get(events.names[index], (0, 0))
        found[events.names[index]] = total + int(dur[index]), intervals + 1
    return found
