"""Fits, gains, speed-ups and intervals of measurements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from traceql.runs.compare.verdict import CONFIDENCE, shift
from traceql.runs.experiment.tables import Row, insert


def median_place(repeats: int) -> tuple[int, float]:
    """The greatest place, from 1, whose interval covers at least 95%, or else 1; its coverage."""
    ways = below = 1  # outcomes of coins with place - 1 heads, and with at most as many
    best = 1, _coverage(repeats, below)
    for place in range(2, repeats // 2 + 1):
        ways = ways * (repeats - place + 2) // (place - 1)
        below += ways
        coverage = _coverage(repeats, below)
        if coverage < CONFIDENCE:
            break
        best = place, coverage
    return best


def _coverage(repeats: int, below: int) -> float:
    return float(max(0.0, 1 - below / 2 ** (repeats - 1)))


def median_places(numbers: Iterable[int]) -> Iterator[dict[str, float]]:
    for repeats in sorted(numbers):
        place, coverage = median_place(repeats)
        yield {"repeats": repeats, "place": place, "coverage": coverage}


Matrix = npt.NDArray[np.float64]

PARTS = 3
LEAST_POINTS = PARTS + 1  # as many points as parts always fit


@dataclass(frozen=True)
class Curve:
    """Coefficients of the parts, and curve / measured - 1 of each point.

    `unseen` is the median leave-one-out error; None with too few points.
    """

    coefficients: Matrix
    errors: Sequence[float]
    unseen: float | None


def fitted(parts: Sequence[Sequence[float]], times: Sequence[float]) -> Curve:
    """The curve through LEAST_POINTS or more points with times above 0.

    `parts` are, for each point, the factors of the fixed, linear and context coefficient.
    """
    rows, measured = np.array(parts, dtype=np.float64), np.array(times, dtype=np.float64)
    found = _coefficients(rows, measured)
    unseen = None
    if len(times) > LEAST_POINTS:
        errors = []
        for place, time in enumerate(measured):
            others = np.arange(len(times)) != place
            without = _coefficients(rows[others], measured[others])
            errors.append(abs(float(rows[place] @ without / time - 1)))
        unseen = median(errors)
    return Curve(found, [float(e) for e in rows @ found / measured - 1], unseen)


def _coefficients(rows: Matrix, times: Matrix) -> Matrix:
    """Non-negative least squares: of all subsets of the parts, the best without a negative one."""
    relative = rows / times[:, None]
    scale = np.where(relative.max(axis=0) > 0, relative.max(axis=0), 1.0)
    relative = relative / scale
    best, best_error = np.zeros(rows.shape[1]), np.inf
    for count in range(1, rows.shape[1] + 1):
        for chosen in combinations(range(rows.shape[1]), count):
            some, *_ = np.linalg.lstsq(relative[:, chosen], np.ones(len(times)), rcond=None)
            error = float(np.sum((relative[:, chosen] @ some - 1) ** 2))
            if (some >= 0).all() and error < best_error:
                best, best_error = np.zeros(rows.shape[1]), error
                best[list(chosen)] = some
    result: Matrix = best / scale
    return result


# The factors of the linear and the context coefficient of a metric.
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


# Measured points in the order of their loads, each with the one before it.
_STEPS = """
SELECT
    point_id,
    LAG(point_id) OVER (PARTITION BY load_group ORDER BY load_value) AS before_point_id
FROM point_label
WHERE point_id IN (SELECT DISTINCT point_id FROM point_value)
QUALIFY before_point_id IS NOT NULL
ORDER BY point_id
"""
_VALUES = """
SELECT measurement.point_id, measurement.metric, LIST(measurement.value ORDER BY repeat.number)
FROM measurement
INNER JOIN repeat USING (repeat_id)
WHERE repeat.number > 0 AND list_contains($stats, measurement.metric || ' ' || measurement.stat)
GROUP BY ALL
"""
_GAINS = {"output_tokens_per_second": "total", "ttft": "median", "queue": "max"}


def add_gains(con: duckdb.DuckDBPyConnection) -> None:
    """Compares each point with the same one at the next lower load."""
    rows = list[Row]()
    pairs = con.execute(_STEPS).fetchall()
    for (point, before), metric, values, values_before in _paired_values(con, pairs, _GAINS):
        found = vars(shift(values_before, values))
        row = {"point_id": point, "before_point_id": before, "metric": metric}
        rows.append({**row, **found, "change": found["estimate"]})
    insert(con, "gain", rows)


def _paired_values(
    con: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[Any, ...]], stats: Mapping[str, str]
) -> Iterator[tuple[tuple[Any, ...], str, list[float], list[float]]]:
    """The values of the repeats of both points of each pair, by metric with its statistic."""
    wanted = [f"{metric} {stat}" for metric, stat in stats.items()]
    found = con.execute(_VALUES, {"stats": wanted}).fetchall()
    values = {(point, metric): own for point, metric, own in found}
    for pair in pairs:
        point, base, *_ = pair
        for metric in stats:
            if (point, metric) in values and (base, metric) in values:
                yield pair, metric, values[point, metric], values[base, metric]


_RATE = "output_tokens_per_second"
_SPEEDUPS = {
    **dict.fromkeys(("ttft", "tpot", "e2e", "batch_latency"), "median"), _RATE: "total",
}  # fmt: skip
# Points of one experiment that differ by their GPUs alone, with the one of the fewest GPUs first:
# in strong scaling with the same load, in weak scaling with the same load per GPU.
_PAIRS = """
WITH measured AS (
    SELECT * FROM point
    WHERE point_id IN (SELECT DISTINCT point_id FROM point_value)
)
SELECT point.point_id, base.point_id, scaling.name
FROM measured AS point
INNER JOIN measured AS base
    USING (experiment_id, model, arguments, environment, load, prompt_tokens, output_tokens)
CROSS JOIN (VALUES ('strong'), ('weak')) AS scaling (name)
WHERE
    point.gpus > base.gpus
    -- Of several layouts with as few GPUs, the plain one is the base.
    AND NOT base.ep
    AND point.in_flight IS NOT DISTINCT FROM
        base.in_flight * CASE scaling.name WHEN 'weak' THEN point.gpus / base.gpus ELSE 1 END
    AND point.request_rate IS NOT DISTINCT FROM
        base.request_rate * CASE scaling.name WHEN 'weak' THEN point.gpus / base.gpus ELSE 1 END
QUALIFY
    ROW_NUMBER() OVER (
        PARTITION BY point.point_id, scaling.name ORDER BY base.gpus, base.point_id
    ) = 1
ORDER BY scaling.name, point.point_id
"""


def add_speedups(con: duckdb.DuckDBPyConnection) -> None:
    """Compares each point with the same one on the fewest GPUs."""
    pairs = con.execute(_PAIRS).fetchall()
    rows = list[Row]()
    for (point, base, scaling), metric, own, of_base in _paired_values(con, pairs, _SPEEDUPS):
        if min(*own, *of_base) <= 0:
            continue
        # The speed-up of a latency is base / point.
        ratio = shift(of_base, own) if metric == _RATE else shift(own, of_base)
        rows.append(
            {
                "point_id": point,
                "base_point_id": base,
                "scaling": scaling,
                "metric": metric,
                "ratio": 1 + ratio.estimate,
                "low": None if ratio.low is None else 1 + ratio.low,
                "high": None if ratio.high is None else 1 + ratio.high,
            }
        )
    insert(con, "speedup", rows)
