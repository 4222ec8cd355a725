"""Fills the table gain: how far throughput, TTFT and the queue grew from one load to the next."""

import duckdb

from traceql.runs.compare.shift import shift
from traceql.runs.experiment.schema import Row, insert

# Measured points in the order of their loads, each with the one before it.
_STEPS = """
SELECT point_id, before_point_id
FROM (
    SELECT
        point_id,
        LAG(point_id) OVER (PARTITION BY load_group ORDER BY load_value) AS before_point_id
    FROM point_label
    WHERE point_id IN (SELECT DISTINCT point_id FROM point_value)
)
WHERE before_point_id IS NOT NULL
ORDER BY point_id
"""
_VALUES = """
SELECT measurement.point_id, measurement.metric, LIST(measurement.value ORDER BY repeat.number)
FROM measurement
INNER JOIN repeat USING (repeat_id)
WHERE
    repeat.number > 0
    AND (measurement.metric, measurement.stat) IN (
        ('output_tokens_per_second', 'total'), ('ttft', 'median'), ('queue', 'max')
    )
GROUP BY ALL
"""
_METRICS = ("output_tokens_per_second", "ttft", "queue")


def add_gains(con: duckdb.DuckDBPyConnection) -> None:
    """Compares each point with the same one at the next lower load."""
    found = con.execute(_VALUES).fetchall()
    values = {(point, metric): own for point, metric, own in found}
    rows = list[Row]()
    for point, before in con.execute(_STEPS).fetchall():
        for metric in _METRICS:
            if (point, metric) not in values or (before, metric) not in values:
                continue
            change = shift(values[before, metric], values[point, metric])
            rows.append(
                {
                    "point_id": point,
                    "before_point_id": before,
                    "metric": metric,
                    "is_ratio": change.is_ratio,
                    "change": change.estimate,
                    "low": change.low,
                    "high": change.high,
                }
            )
    insert(con, "gain", rows)
