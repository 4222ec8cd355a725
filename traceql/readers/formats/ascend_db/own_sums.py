"""The profiler's own sums of time, compared with those of the events that were loaded."""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from traceql.readers.dialects.ascend.vocabulary import IS_KERNEL_OF_COMMUNICATION, Category
from traceql.readers.formats.ascend.overlap import covered
from traceql.readers.formats.ascend_db.analysis import Analysis
from traceql.readers.formats.ascend_db.rank_events import RankEvents
from traceql.readers.remarks import Remark

Bools = npt.NDArray[np.bool_]
_GRAIN_NS = 250  # of microseconds since 1970 as a 64-bit float
_NAMES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
_OF_COMMUNICATION = re.compile(IS_KERNEL_OF_COMMUNICATION)


def own_sums(found: RankEvents, analysis: Analysis) -> Iterator[Remark]:
    """One statement for each of the profiler's sums that the files have."""
    yield from _overlap(found)
    yield from _steps(found, analysis)
    yield from _operations(found, analysis)


def _overlap(found: RankEvents) -> Iterator[Remark]:
    rows = np.flatnonzero(found.of(Category.OVERLAP))
    if not len(rows):
        return
    names = np.array(found.name.take(rows).to_pylist(), object)
    own = _sums(found, np.ones(len(found.timeline), np.bool_))
    for name in _NAMES:
        theirs = int(found.timeline.dur[rows[names == name]].sum())
        yield Remark(
            f"overlap analysis: {name}",
            own[name],
            theirs,
            own[name] == theirs,
            "time as the tasks of the profile give it; as table OVERLAP_ANALYSIS says, ns",
        )


def _steps(found: RankEvents, analysis: Analysis) -> Iterator[Remark]:
    """A task belongs whole to the step in which it starts; without steps, all are in one."""
    known = [one for one in analysis.steps if not one.step or one.step in found.step_spans]
    ours = [_sums(found, _in_step(found, one.step)) for one in known]
    for name in _NAMES:
        pairs = [
            (own[name], round(one.us[name] * 1000))
            for own, one in zip(ours, known, strict=True)
            if name in one.us
        ]
        if not pairs:
            continue
        grain = _GRAIN_NS if name == "Free" else 0
        equal = sum(abs(own - theirs) <= grain for own, theirs in pairs)
        yield Remark(
            f"steps of analysis.db: {name}",
            sum(own for own, _ in pairs),
            sum(theirs for _, theirs in pairs),
            True if equal == len(pairs) else False if len(pairs) == 1 else None,
            f"time as the tasks of the profile give it; as analysis.db says, ns; equal in {equal} "
            f"of {len(pairs)} steps (times between points in time went through floats there, "
            "which changes them by up to 250 ns)",
        )


def _in_step(found: RankEvents, step: str) -> Bools:
    """Whether each event begins in a step."""
    ts = found.timeline.ts
    start, end = found.step_spans.get(step, (int(ts.min()), int(ts.max()) + 1))
    return (ts >= start) & (ts < end)


def _sums(found: RankEvents, chosen: Bools) -> dict[str, int]:
    """The time of each kind, ns: copies and waits for events count as free."""
    ts, dur = found.timeline.ts, found.timeline.dur
    named = [bool(_OF_COMMUNICATION.search(str(n))) for n in found.name.dictionary.to_pylist()]
    excluded = np.append(np.array(named, np.bool_), False)[
        found.name.indices.fill_null(len(named)).to_numpy()
    ]
    compute = found.of(Category.KERNEL) & chosen & ~excluded
    comm = found.of(Category.COMMUNICATION) & chosen
    both = compute | comm
    of_both, of_compute = covered(ts[both], dur[both]), covered(ts[compute], dur[compute])
    window = int((ts + dur)[both].max() - ts[both].min()) if both.any() else 0
    return {
        "Computing": of_compute,
        "Communication": covered(ts[comm], dur[comm]),
        "Communication(Not Overlapped)": of_both - of_compute,
        "Free": window - of_both,
    }


def _operations(found: RankEvents, analysis: Analysis) -> Iterator[Remark]:
    """Operations of communication whose times analysis.db has too."""
    rows = np.flatnonzero(found.of(Category.COMMUNICATION))
    theirs = analysis.operations
    if not theirs or not len(rows):
        return
    names, durs = found.name.take(rows).to_pylist(), found.timeline.dur[rows].tolist()
    equal = sum(
        any(abs(dur - other) <= 1 for other in theirs.get(str(name), ()))
        for name, dur in zip(names, durs, strict=True)
    )
    listed = sum(map(len, theirs.values()))
    yield Remark(
        "operations of analysis.db",
        equal,
        listed,
        equal == listed,
        "operations of communication with the same duration, to 1 ns, as analysis.db has "
        "milliseconds; operations in analysis.db",
    )
