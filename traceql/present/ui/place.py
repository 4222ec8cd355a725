"""The place to zoom to: the interval of a step, of a layer, or of a query's row."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.result import Result

if TYPE_CHECKING:
    from traceql.present.pftrace.run_view import Pair

# The view before and after an interval, in percent of its length. When the UI selects a
# slice it zooms out to five times the slice, unless twice the slice is visible and off-center.
_BEFORE_PCT, _AFTER_PCT = 55, 60
_MARGIN_NS = 1000  # at least, on each side
_PLACES = {"kernel_id", "ts", "step_id"}
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
_FINDING = "SELECT ts, dur FROM finding WHERE rank_order = $number"
_KERNEL = "SELECT ts, GREATEST(dur, 0) AS dur FROM kernel WHERE id = $kernel"
_EXTENT = "SELECT MIN(ts) AS ts, MAX(ts + GREATEST(dur, 0)) AS end_ts FROM slice"


@dataclass(frozen=True)
class Place:
    """A slice by its start and duration, and the interval to show; ns since the run's base time."""

    ts: int
    dur: int
    view_start: int
    view_end: int

    def shifted(self, offset_ns: int) -> "Place":
        """The same place on another clock."""
        view = self.view_start + offset_ns, self.view_end + offset_ns
        return Place(self.ts + offset_ns, self.dur, *view)


def place_of(
    database: Database, step: int | None, layer: int | None, finding: int | None
) -> Place | None:
    """The place of a finding, or of a step and perhaps its layer; None without a choice.

    Raises TraceqlError if there is none, or the finding has no single place.
    """
    if finding is not None:
        return place_of_finding(database, finding)
    return None if step is None else place_of_step(database, step, layer)


def place_of_step(database: Database, step: int, layer: int | None) -> Place:
    """The place of a step, or of the first pass of a layer in it; raises as `place_of`."""
    found = database.select(_STEP, {"step": step}).rows()
    if not found:
        raise TraceqlError(
            f"no step {step}; list the steps with traceql run steps.timeline {database.path}"
        )
    if layer is not None:
        found = database.select(_LAYER, {"step": step, "layer": layer}).rows()
        if not found:
            command = f"traceql run layers.heatmap {database.path}"
            raise TraceqlError(f"no layer {layer} in step {step}; list the layers with {command}")
    return _around(database, found[0]["ts"], found[0]["dur"])


def place_of_finding(database: Database, number: int) -> Place:
    """The place that shows a finding best, by its number from 1; raises as `place_of`."""
    found = database.select(_FINDING, {"number": number}).rows()
    if not found:
        raise TraceqlError(
            f"no finding {number}; list the findings with traceql info {database.path}"
        )
    if found[0]["ts"] is None:
        raise TraceqlError(f"finding {number} has no single place; open a step with --step")
    return _around(database, found[0]["ts"], found[0]["dur"] or 0)


def place_of_pair(pair: "Pair") -> Place | None:
    """The step of the base at which two runs are aligned, in an interval that shows both steps.

    None if they are aligned elsewhere.
    """
    if isinstance(pair.alignment.at, str):
        return None
    base, new = (
        _around(run.database, step.ts, step.dur).shifted(run.shift_ns)
        for run, step in zip((pair.base, pair.new), pair.alignment.at, strict=True)
    )
    view = min(base.view_start, new.view_start), max(base.view_end, new.view_end)
    return Place(base.ts, base.dur, *view)


def slowest_row(query: str, result: Result) -> dict[str, Any]:
    """The row with the longest `dur`, otherwise with the largest value of the first ns column.

    Raises TraceqlError if there are no rows, or no column is a duration.
    """
    column = _duration(result.columns)
    if column is None:
        raise TraceqlError(f"{query} has no duration column, so there is no slowest row to open")
    timed = [row for row in result if row[column] is not None]
    if not timed:
        raise TraceqlError(f"{query} returned no rows, so there is nothing to open")
    return max(timed, key=lambda row: float(row[column]))


def _duration(columns: Iterable[str]) -> str | None:
    """The column that is the duration of the row."""
    found = [name for name in columns if _DURATION.search(name)]
    return "dur" if "dur" in found else next(iter(found), None)


def has_place(columns: Iterable[str]) -> bool:
    """Whether rows with these columns can be opened."""
    return not _PLACES.isdisjoint(columns)


def place_of_row(database: Database, query: str, row: dict[str, Any]) -> Place:
    """The place of the row's kernel, of its `ts` and duration, or of its `step_id` and `layer`.

    Raises TraceqlError if the row has no place in time, or its time is outside the trace.
    """
    if row.get("kernel_id") is not None:
        (kernel,) = database.select(_KERNEL, {"kernel": row["kernel_id"]}).rows()
        return _around(database, kernel["ts"], kernel["dur"])
    if row.get("ts") is not None:
        return _around(database, row["ts"], int(row[_duration(row) or "ts"] or 0))
    if row.get("step_id") is not None:
        return place_of_step(database, row["step_id"], row.get("layer"))
    raise TraceqlError(
        f"cannot open {query} in Perfetto: its rows have neither a time (ts) nor a step (step_id); "
        "try idle.gaps, steps.timeline or layers.outliers"
    )


def _around(database: Database, ts: int, dur: int) -> Place:
    """A view of the interval with margins, cut at the ends of the trace."""
    (extent,) = database.select(_EXTENT).rows()
    first, last = extent["ts"], extent["end_ts"]
    if ts > last or ts + dur < first:
        raise TraceqlError("this row's time is outside the trace; open another row or step")
    start = max(ts, first)
    dur = min(ts + dur, last) - start
    view_start = start - max(dur * _BEFORE_PCT // 100, _MARGIN_NS)
    view_end = start + dur + max(dur * _AFTER_PCT // 100, _MARGIN_NS)
    return Place(start, dur, max(view_start, first), min(view_end, last))
