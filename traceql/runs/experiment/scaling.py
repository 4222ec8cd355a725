"""Fills the table speedup: how many times better a point is than the one with fewer GPUs."""

from typing import Any

import duckdb

from traceql.runs.compare.shift import shift
from traceql.runs.experiment.schema import insert

_LATENCIES = ("ttft", "tpot", "e2e", "batch_latency")
_RATE = "output_tokens_per_second"
# Points of one experiment that differ by their GPUs alone, with the one of the fewest GPUs first.
_PAIRS = """
WITH measured AS (
    SELECT * FROM point
    WHERE point_id IN (SELECT DISTINCT point_id FROM point_value)
),
paired AS (
    SELECT
        point.point_id,
        base.point_id AS base_point_id,
        base.gpus AS base_gpus,
        {same_load} AS is_strong,
        {same_load_per_gpu} AS is_weak
    FROM measured AS point
    INNER JOIN measured AS base
        ON point.experiment_id = base.experiment_id
        AND point.model = base.model
        AND point.gpus > base.gpus
        AND point.arguments = base.arguments
        AND point.environment = base.environment
        AND point.load = base.load
        AND point.prompt_tokens = base.prompt_tokens
        AND point.output_tokens = base.output_tokens
        -- Of several layouts with as few GPUs, the plain one is the base.
        AND NOT base.ep
)
SELECT point_id, base_point_id, scaling
FROM (
    SELECT *, 'strong' AS scaling FROM paired WHERE is_strong
    UNION ALL
    SELECT *, 'weak' FROM paired WHERE is_weak
)
QUALIFY
    ROW_NUMBER() OVER (PARTITION BY point_id, scaling ORDER BY base_gpus, base_point_id) = 1
ORDER BY scaling, point_id
"""
_SAME_LOAD = """(
    point.in_flight IS NOT DISTINCT FROM base.in_flight
    AND point.request_rate IS NOT DISTINCT FROM base.request_rate
)"""
_SAME_LOAD_PER_GPU = """(
    point.in_flight IS NOT DISTINCT FROM base.in_flight * point.gpus / base.gpus
    AND point.request_rate IS NOT DISTINCT FROM base.request_rate * point.gpus / base.gpus
)"""
_VALUES = """
SELECT measurement.point_id, measurement.metric, LIST(measurement.value ORDER BY repeat.number)
FROM measurement
INNER JOIN repeat USING (repeat_id)
WHERE repeat.number > 0 AND measurement.stat = CASE
    WHEN measurement.metric = $rate THEN 'total'
    WHEN measurement.metric IN $latencies THEN 'median'
END
GROUP BY ALL
"""


def add_speedups(con: duckdb.DuckDBPyConnection) -> None:
    """Compares each point with the same one on the fewest GPUs."""
    found = con.execute(_VALUES, {"rate": _RATE, "latencies": list(_LATENCIES)}).fetchall()
    values = {(point, metric): own for point, metric, own in found}
    pairs = con.execute(
        _PAIRS.format(same_load=_SAME_LOAD, same_load_per_gpu=_SAME_LOAD_PER_GPU)
    ).fetchall()
    rows = list[dict[str, Any]]()
    for point, base, scaling in pairs:
        for metric in (*_LATENCIES, _RATE):
            if (point, metric) not in values or (base, metric) not in values:
                continue
            sides = values[base, metric], values[point, metric]
            if min(*sides[0], *sides[1]) <= 0:
                continue
            # A speed-up of a latency is base / point, so the sides change places.
            before, after = sides if metric == _RATE else sides[::-1]
            ratio = shift(before, after)
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
    insert(con, "speedup", list(rows))
