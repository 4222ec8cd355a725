"""Fills the tables fit and fit_point: curves through the medians of TTFT and TPOT."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import duckdb

from traceql.runs.experiment.curve import LEAST_POINTS, fitted
from traceql.runs.experiment.schema import insert

# What the linear and the context coefficient of a metric are multiplied by.
_PARTS = {
    "ttft": (
        "CAST(in_flight AS DOUBLE) * prompt_tokens",
        "CAST(in_flight AS DOUBLE) * prompt_tokens * prompt_tokens",
    ),
    "tpot": ("CAST(in_flight AS DOUBLE)", "in_flight * (prompt_tokens + output_tokens / 2)"),
}
_MEASURED = """
SELECT
    point.point_id,
    point.experiment_id,
    point.engine_key,
    point.load,
    point.output_tokens,
    {linear} AS linear,
    {context} AS context,
    point_value.median
FROM point
INNER JOIN point_value USING (point_id)
WHERE
    point_value.metric = '{metric}'
    AND point_value.stat = 'median'
    AND point_value.median > 0
    AND point.in_flight IS NOT NULL
    AND point.request_rate IS NULL
ORDER BY point.point_id
"""
_GROUP = ("experiment_id", "engine_key", "load", "output_tokens")


def add_fits(con: duckdb.DuckDBPyConnection) -> None:
    """Fits a curve to the points of each engine, number of output tokens and kind of load."""
    fits, points = list[dict[str, Any]](), list[dict[str, Any]]()
    for metric, (linear, context) in _PARTS.items():
        statement = _MEASURED.format(metric=metric, linear=linear, context=context)
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in con.sql(statement).to_arrow_table().to_pylist():
            groups.setdefault(tuple(row[name] for name in _GROUP), []).append(row)
        for group, rows in groups.items():
            known = {"fit_id": len(fits), "metric": metric, **dict(zip(_GROUP, group, strict=True))}
            found, own = _fit(rows)
            fits.append({**known, "points": len(rows), **found})
            points += [{"fit_id": known["fit_id"], **one} for one in own]
    insert(con, "fit", list(fits))
    insert(con, "fit_point", list(points))


def _fit(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The columns of a fit, and the rows of its points."""
    if len(rows) < LEAST_POINTS:
        needed = f"{len(rows)} points; a curve of three parts needs {LEAST_POINTS} or more"
        return {"reason": needed}, []
    parts = [(1.0, row["linear"], row["context"]) for row in rows]
    curve = fitted(parts, [row["median"] for row in rows])
    distances = [100 * abs(error) for error in curve.errors]
    fixed, linear, context = map(float, curve.coefficients)
    found = {
        "fixed_ns": fixed,
        "linear_ns": linear,
        "context_ns": context,
        "median_error_pct": median(distances),
        "worst_error_pct": max(distances),
        "unseen_error_pct": None if curve.unseen is None else 100 * curve.unseen,
    }
    own = [
        {
            "point_id": row["point_id"],
            "measured_ns": row["median"],
            "fixed_ns": fixed,
            "linear_ns": linear * row["linear"],
            "context_ns": context * row["context"],
            "error_pct": 100 * error,
        }
        for row, error in zip(rows, curve.errors, strict=True)
    ]
    return found, own
