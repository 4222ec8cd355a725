"""Where to look: an interval of the run, from a step, a layer, or the row of a query."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from traceql.errors import TraceqlError
from traceql.result import Result
from traceql.trace import Trace

# What is shown before and after an interval, in percent of its length. The UI zooms out to five
# times a slice that it selects unless twice the slice is visible, and not quite centred.
_BEFORE_PCT, _AFTER_PCT = 55, 60
_LEAST_NS = 1000
_DURATION = re.compile(r"^dur$|_ns$")

_STEP = """
    SELECT COALESCE(gpu_ts, ts) AS ts, COALESCE(gpu_dur, dur) AS dur
    FROM step
    WHERE step_id = $step
"""
_LAYER = """
    SELECT ts, dur
    FROM layer
    WHERE step_id = $step AND layer = $layer
    ORDER BY pass
    LIMIT 1
"""
_KERNEL = "SELECT ts, GREATEST(dur, 0) AS dur FROM kernel WHERE id = $kernel"
_EXTENT = "SELECT MIN(ts) AS ts, MAX(ts + GREATEST(dur, 0)) AS end_ts FROM slice"


@dataclass(frozen=True)
class Place:
    """A slice by its start and duration, and what to show around it; ns since the run's base."""

    ts: int
    dur: int
    view_start: int
    view_end: int

    def shifted(self, offset_ns: int) -> "Place":
        """The same by another clock."""
        view = self.view_start + offset_ns, self.view_end + offset_ns
        return Place(self.ts + offset_ns, self.dur, *view)


def place_of_step(trace: Trace, step: int, layer: int | None) -> Place:
    """A step, or the first time that a layer runs in it.

    Raises:
        TraceqlError: there is no such step or layer.
    """
    found = trace.sql(_STEP, {"step": step}).rows()
    if not found:
        raise TraceqlError(f"no step {step}; traceql run steps.timeline {trace.path} lists them")
    if layer is not None:
        found = trace.sql(_LAYER, {"step": step, "layer": layer}).rows()
        if not found:
            lists = f"traceql run layers.heatmap {trace.path}"
            raise TraceqlError(f"no layer {layer} in step {step}; {lists} lists them")
    return _around(trace, found[0]["ts"], found[0]["dur"])


def slowest_row(query: str, result: Result) -> dict[str, Any]:
    """The row with the longest `dur`, or else the largest of the first column of ns.

    Raises:
        TraceqlError: there are no rows, or no column says how long.
    """
    column = _duration(result.columns)
    if column is None:
        raise TraceqlError(f"{query} has no column of durations, so no row is the slowest")
    timed = [row for row in result if row[column] is not None]
    if not timed:
        raise TraceqlError(f"{query} returned no rows to open")
    return max(timed, key=lambda row: float(row[column]))


def _duration(columns: Iterable[str]) -> str | None:
    """The column that says how long."""
    found = [name for name in columns if _DURATION.search(name)]
    return "dur" if "dur" in found else next(iter(found), None)


def place_of_row(trace: Trace, query: str, row: dict[str, Any]) -> Place:
    """Its kernel, or its `ts` and how long it took, or else its `step_id` and `layer`.

    Raises:
        TraceqlError: the rows have no place in time, or this one is not in the recording.
    """
    if row.get("kernel_id") is not None:
        (kernel,) = trace.sql(_KERNEL, {"kernel": row["kernel_id"]}).rows()
        return _around(trace, kernel["ts"], kernel["dur"])
    if row.get("ts") is not None:
        return _around(trace, row["ts"], int(row[_duration(row) or "ts"] or 0))
    if row.get("step_id") is not None:
        return place_of_step(trace, row["step_id"], row.get("layer"))
    raise TraceqlError(
        f"{query} has no place in time: its rows have neither ts nor step_id; "
        "idle.gaps, steps.timeline and layers.outliers have"
    )


def _around(trace: Trace, ts: int, dur: int) -> Place:
    """Shows a little more than the interval, but nothing outside of the trace."""
    (extent,) = trace.sql(_EXTENT).rows()
    if ts > extent["end_ts"] or ts + dur < extent["ts"]:
        raise TraceqlError("this row's time is not in the recording: it lies before or after")
    ts, dur = _common(ts, ts + dur, extent["ts"], extent["end_ts"])
    start = ts - max(dur * _BEFORE_PCT // 100, _LEAST_NS)
    end = ts + dur + max(dur * _AFTER_PCT // 100, _LEAST_NS)
    return Place(ts, dur, max(start, extent["ts"]), min(end, extent["end_ts"]))


def _common(begin: int, end: int, first: int, last: int) -> tuple[int, int]:
    """Start and duration of what two intervals share."""
    start = max(begin, first)
    return start, min(end, last) - start
