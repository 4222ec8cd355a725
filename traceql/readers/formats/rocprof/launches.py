"""Which call launched each activity: the joining of calls and activities by their correlation.

A kernel has the correlation of the innermost call that was traced. Where HSA was traced too, that
is a call of HSA inside the call of HIP, which is the one that launched it.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.dialects.rocprof.vocabulary import CATEGORIES

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def is_call(events: pa.Table) -> Bools:
    """Whether each event is a call of HIP."""
    codes = pc.utf8_lower(events["cat"])
    known = pa.array([cat for cat, kind in CATEGORIES.items() if kind == EventKind.LAUNCH])
    found: Bools = pc.is_in(codes, value_set=known.cast(pa.large_string())).to_numpy()
    return found.astype(np.bool_)


def correlations(events: pa.Table) -> Int64s:
    """The correlation of each event with a call of HIP; 0 if there is none.

    What has the correlation of a call of another API gets that of the call of HIP around it.
    """
    given: Int64s = events["correlation"].fill_null(0).to_numpy().astype(np.int64)
    calls = is_call(events)
    known = np.unique(given[calls])
    astray = ~calls & (given != 0) & ~np.isin(given, known)
    wanted = np.unique(given[astray])
    if not len(wanted) or not calls.any():
        return given
    on_host = events["on_gpu"].to_numpy() == 0
    inner = np.flatnonzero(on_host & ~calls & np.isin(given, wanted))
    around = _enclosing(events, inner, np.flatnonzero(calls))
    outer = {given[i]: given[c] for i, c in zip(inner, around, strict=True) if c >= 0}
    found = given.copy()
    moved = astray & ~on_host
    found[moved] = [outer.get(number, number) for number in given[moved].tolist()]
    return found


def _enclosing(events: pa.Table, inner: Int64s, calls: Int64s) -> Int64s:
    """The call of the same thread in which each event began; -1 if there is none."""
    thread: Int64s = events["thread"].fill_null(-1).to_numpy().astype(np.int64)
    ts: Int64s = events["ts"].to_numpy()
    end = ts + events["dur"].to_numpy()
    found = np.full(len(inner), -1)
    for one in np.unique(thread[inner]):
        of_thread = calls[thread[calls] == one]
        of_thread = of_thread[np.argsort(ts[of_thread], kind="stable")]
        at = np.flatnonzero(thread[inner] == one)
        before = np.searchsorted(ts[of_thread], ts[inner[at]], side="right") - 1
        has_one = before >= 0
        call = of_thread[before[has_one]]
        inside = end[inner[at[has_one]]] <= end[call]
        found[at[has_one][inside]] = call[inside]
    return found
