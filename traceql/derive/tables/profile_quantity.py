# One row per metric of Nsight Compute that a quantity is made of.
#
# A quantity is the sum of the metrics of a way, each times its factor. Of the ways whose metrics were
# all measured, the lowest counts.
# @schema reference
# @scope  run
# @column quantity  VARCHAR  Quantity; a column of profiled_work comes from it.
# @column way       BIGINT   Number of the way, from 1.
# @column metric    VARCHAR  Metric, or label of the details page (kernel_metric.metric).
# @column section   VARCHAR  Section in which the label must be; NULL for a metric, which may be anywhere.
# @column unit      VARCHAR  Unit that it must have (kernel_metric.unit); NULL for any.
# @column factor    DOUBLE   Factor of the metric.

"""Reads profile_quantity.csv, beside this file."""

import csv
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.table_head import declared_schema

_QUANTITIES = Path(__file__).with_suffix(".csv")


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    with _QUANTITIES.open(newline="", encoding="utf-8") as file:
        listed = [
            {
                **row,
                "way": int(row["way"]),
                "section": row["section"] or None,
                "unit": row["unit"] or None,
                "factor": float(row["factor"]),
            }
            for row in csv.DictReader(file)
        ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
