# One row per step, device and cause: for how long the device was idle in the step's GPU span.
#
# Each step has its rows for the devices on which it has kernels. Where the GPU spans of steps
# overlap, the time counts for each of them.
# @kind   scratch
# @scope  run
# @needs  gap, kernel, step
# @empty_unless gap
# @column step_id  BIGINT   Step (step.step_id).
# @column rank     BIGINT   Rank.
# @column device   BIGINT   Number of the device on its machine.
# @column cause    VARCHAR  Why the device was idle (gap.cause).
# @column ns       BIGINT   Time, ns.

"""Measures idle time by differences of running totals, because there are many gaps."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.arrow_duckdb import columns_of, rows_where
from traceql.elapsed import Elapsed
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
_SPANS = """
    SELECT place.rank, place.device, place.step_id, step.gpu_ts AS ts, step.gpu_ts + step.gpu_dur AS end_ts
    FROM (SELECT DISTINCT rank, device, step_id FROM kernel) AS place
    INNER JOIN step USING (step_id)
    ORDER BY place.rank, place.device, place.step_id
"""
_GAPS = "SELECT ts, dur FROM gap WHERE rank = $rank AND device = $device AND cause = $cause"
_KINDS = "SELECT DISTINCT rank, device, cause FROM gap ORDER BY ALL"


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    spans = columns_of(con.sql(_SPANS))
    tables = [_SCHEMA.empty_table()]
    for rank, device, cause in con.execute(_KINDS).fetchall():
        own = rows_where(spans, (spans["rank"] == rank) & (spans["device"] == device))
        gaps = columns_of(con.sql(_GAPS, params={"rank": rank, "device": device, "cause": cause}))
        ns = Elapsed.of(gaps["ts"], gaps["dur"]).between(own["ts"], own["end_ts"])
        places = (np.full(len(ns), value) for value in (rank, device))
        tables.append(
            pa.table([own["step_id"], *places, pa.array([cause] * len(ns)), ns], schema=_SCHEMA)
        )
    return pa.concat_tables(tables).filter(pc.field("ns") > 0)
