"""The steps that the program marked, and the profiler's sums of each as samples of counters."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from traceql.readers.formats.ascend_db.analysis import StepSums
from traceql.readers.formats.ascend_db.profile import Profile, time
from traceql.readers.tables import COUNTER, NAME

_TABLE = "STEP_TIME"
_UNIT = "us"


def step_spans(profile: Profile) -> Mapping[str, tuple[int, int]]:
    """The start and the end of each step, Unix time in ns, by its number."""
    if not profile.has(_TABLE, "id", "startNs", "endNs"):
        return {}
    rows = profile.rows(f"SELECT id, {time('startNs')}, {time('endNs')} FROM {_TABLE}")
    return {str(step): (start, end) for step, start, end in rows if start and end}


def step_samples(
    sums: list[StepSums], spans: Mapping[str, tuple[int, int]], *, first_ts: int, track: int
) -> pa.Table:
    """The sums of each step at its start, else at that of the profile."""
    rows = [
        (f"step_trace_time {name}", spans.get(one.step, (first_ts, 0))[0], us)
        for one in sums
        for name, us in one.us.items()
    ]
    columns = [
        pa.array([name for name, _, _ in rows], pa.large_string()).cast(NAME),
        pa.array([_UNIT] * len(rows), pa.large_string()).cast(NAME),
        pa.array([ts for _, ts, _ in rows], pa.int64()),
        pa.array([us for _, _, us in rows], pa.float64()),
        pa.array(np.full(len(rows), track)),
    ]
    return pa.table(columns, schema=COUNTER)
