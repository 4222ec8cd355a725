"""The history of a folder of runs: metrics over time, with detected changes."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceql.errors import TraceqlError
from traceql.result import Result
from traceql.runs.history.lookback import THRESHOLD, WINDOW
from traceql.runs.history.recordings import By, find_runs, format_time, recorded_runs, setups
from traceql.runs.history.series import (
    Point,
    Series,
    all_series,
    changes,
    format_change,
    format_series,
    too_few,
)
from traceql.sql.query import Chart
from traceql.util.text import format_count

_SCHEMA = pa.schema({
    "series": "int64", "title": "string", "setup": "string", "scope": "string",
    "metric": "string", "x": "string", "recorded": "string", "recorded_unix_ns": "int64",
    "time_from": "string", "commit": "string", "vllm_commit": "string", "branch": "string",
    "runs": "int64", "median_ns": "float64", "least_ns": "float64", "most_ns": "float64",
    "expected_ns": "float64", "change_pct": "float64", "deviation_ns": "float64",
    "margin_ns": "float64", "z": "float64", "mark": "string", "level_ns": "float64",
    "shift_pct": "float64", "shift": "string", "left_out_pct": "float64", "note": "string",
    "names": pa.list_(pa.string()),
})  # fmt: skip
# The columns for a terminal or a page.
SHOWN = (
    "x", "runs", "median_ns", "least_ns", "most_ns", "change_pct", "z", "mark", "shift_pct",
    "commit", "time_from",
)  # fmt: skip
_CHANNELS = {
    "y": "median_ns", "label": "x", "low": "least_ns", "high": "most_ns", "level": "level_ns",
    "expected": "expected_ns", "margin": "margin_ns", "mark": "mark", "shift": "shift",
    "note": "note", "panel": "title",
}  # fmt: skip


class History(Result):
    """One row per series and point; `.df()` and `.chart()` as of every result.

    Attributes:
        titles: of the series, those with a change first.
        descriptions: the changes of each of them, in words.
        has_change: whether a series has a change.
        has_too_few: whether a series has too few points to detect one.
        skipped: a sentence for each skipped run.
        by: the horizontal axis: times or commits.
    """

    def __init__(self, series: Sequence[Series], skipped: Sequence[str], by: By) -> None:
        ordered = sorted(series, key=lambda one: not changes(one))
        rows = [
            _row(number, one, point, by)
            for number, one in enumerate(ordered)
            for point in one.points
        ]
        axis = {"x": "recorded_unix_ns" if by is By.TIME else "x"}
        super().__init__(pa.Table.from_pylist(rows, _SCHEMA), Chart("history", _CHANNELS | axis))
        self.titles = tuple(one.title for one in ordered)
        self.descriptions = tuple("; ".join(format_series(one, by)) for one in ordered)
        self.has_change = tuple(bool(changes(one)) for one in ordered)
        self.has_too_few = tuple(bool(too_few(one)) for one in ordered)
        self.skipped = tuple(skipped)
        self.by = by

    @property
    def sentences(self) -> tuple[str, ...]:
        described = zip(self.titles, self.descriptions, strict=True)
        return tuple(f"{title}: {text}" for title, text in described)

    def of(self, series: int) -> Result:
        return self.where("series", series)

    @property
    def span(self) -> str:
        """The number of runs, and their first and last time."""
        rows = self.rows()
        runs = len({name for row in rows for name in row["names"]})
        times = [row["recorded_unix_ns"] for row in rows]
        return (
            f"{format_count(runs, 'run')} from {format_time(min(times))} to "
            f"{format_time(max(times))} UTC, by {self.by.replace('-', ' of ')}"
        )


def history(
    folder: str | Path,
    *,
    by: str = By.TIME,
    metrics: str | Sequence[str] = (),
    accept: Collection[str] = (),
    threshold: float = THRESHOLD,
    lookback: int = WINDOW,
    on_place: Callable[[Path], None] = lambda place: None,
) -> History:
    """The metrics of runs over time, with detected changes.

    Args:
        folder: with databases, run directories and baselines, at any depth.
        by: time, commit (of the folder in which a run was started) or vllm-commit (of an unreleased
            vLLM). Runs of one commit, and those of one baseline, are repeats of one point.
        metrics: step, interval, a part of a step or a role, such as `decode.step`; without a phase,
            of the steps of all phases together. By default, the steps of each phase.
        accept: names of facts of the set-up, or their prefixes up to a dot, that may differ in a
            series; "all" for all of them.
        threshold: z-score from which a value is marked.
        lookback: most points that a value is compared with.
        on_place: called with each run directory before it is loaded, which may take minutes.

    Raises:
        TraceqlError: the folder has no run that can be used.
    """
    try:
        order = By(by)
    except ValueError:
        raise TraceqlError(f"'{by}' is none of {', '.join(By)}") from None
    found, skipped = recorded_runs(find_runs(Path(folder)), on_place)
    if order is not By.TIME:
        skipped += [f"{one.run.name} has no {order}" for one in found if not one.label(order)]
        found = [one for one in found if one.label(order)]
    groups, incomplete = setups(found, accept=accept)
    skipped += incomplete
    if not groups:
        raise TraceqlError(_nothing_left(Path(folder), order, skipped))
    selected = [metrics] if isinstance(metrics, str) else list(metrics)
    series = all_series(groups, by=order, selected=selected, threshold=threshold, window=lookback)
    if not series:
        raise TraceqlError(f"the runs in {folder} have no steps; use another --metric")
    return History(series, skipped, order)


def _nothing_left(folder: Path, by: By, skipped: Sequence[str]) -> str:
    if by is not By.TIME and all(reason.endswith(f"has no {by}") for reason in skipped):
        if by is By.VLLM_COMMIT:
            return f"no run in {folder} is of an unreleased vLLM; use --by time"
        return (
            f"no run in {folder} has its commit; start captures inside the git checkout, or use "
            "--by time"
        )
    more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
    return f"no run in {folder} can be used: {skipped[0]}{more}"


def _row(number: int, series: Series, point: Point, by: By) -> dict[str, Any]:
    first, scored = point.runs[0], point.scored
    time_ns, source = first.time
    shift, change = point.shift, point.change
    return {
        "series": number,
        "title": series.title,
        "setup": series.setup,
        "scope": series.scope,
        "metric": series.metric,
        "x": first.label(by),
        "recorded": f"{datetime.fromtimestamp(time_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "recorded_unix_ns": time_ns,
        "time_from": source,
        "commit": first.commit or None,
        "vllm_commit": first.vllm_commit or None,
        "branch": first.facts.get("git.branch"),
        "runs": len(point.runs),
        "median_ns": point.ns,
        "least_ns": min(point.values),
        "most_ns": max(point.values),
        "expected_ns": scored.expected,
        "change_pct": None if change is None else 100 * change,
        "deviation_ns": scored.deviation,
        "margin_ns": scored.margin,
        "z": scored.z,
        "mark": scored.mark.value,
        "level_ns": scored.level,
        "shift_pct": None if shift is None else 100 * shift,
        "shift": None if shift is None else format_change(series, shift),
        "left_out_pct": point.left_out_pct,
        "note": too_few(series),
        "names": [one.run.name for one in point.runs],
    }
