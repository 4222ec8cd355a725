# One row per step, device, part, role, layer and cause: how much of the step's GPU span it took.
#
# The rows of a step and device add up to step.gpu_dur, to the nanosecond. A step has rows for each
# device on which it has kernels. Each nanosecond is credited to one kernel: of the kernels that
# run and decide the part (see device_timeline), the one that began last. If that is not a kernel of the
# step, the part is other_step. A kernel that others hide from start to end is in no row.
# @scope  run
# @needs  device_timeline, gap, kernel, step
# @column rank     BIGINT   Rank.
# @column device   BIGINT   Number of the device on its machine.
# @column step_id  BIGINT   Step (step.step_id).
# @column part     VARCHAR  computing, exposed_transfer, exposed_wait, exposed_unmatched, exposed_copy or idle, as in device_timeline; or other_step: the time is credited to a kernel of another step, or of none.
# @column role     VARCHAR  Role of the kernels that the time is credited to (kernel.role); NULL if unknown, and in the parts idle and other_step.
# @column layer    BIGINT   Their layer (kernel.layer); NULL if unknown, outside layers, and in the parts idle and other_step.
# @column cause    VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
# @column ns       BIGINT   Time, ns.
# @column kernels  BIGINT   Number of kernels that the time is credited to; NULL in the parts idle and other_step.

"""Measures idle time by differences of running totals, because there are many gaps."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.analysis.intervals import Elapsed
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import columns_of, query_tables, rows_where

_IDLE = pa.schema(
    [
        ("step_id", pa.int64()),
        ("rank", pa.int64()),
        ("device", pa.int64()),
        ("cause", pa.string()),
        ("ns", pa.int64()),
    ]
)
_SPANS = """
    SELECT place.rank, place.device, place.step_id, step.gpu_ts AS ts, step.gpu_ts + step.gpu_dur AS end_ts
    FROM (SELECT DISTINCT rank, device, step_id FROM kernel) AS place
    INNER JOIN step USING (step_id)
    ORDER BY place.rank, place.device, place.step_id
"""
_GAPS = "SELECT ts, dur FROM gap WHERE rank = $rank AND device = $device AND cause = $cause"
_KINDS = "SELECT DISTINCT rank, device, cause FROM gap ORDER BY ALL"
_TIMES = """
    WITH credited AS (
        SELECT kernel_id AS id, part, SUM(dur) AS ns
        FROM device_timeline
        WHERE kernel_id IS NOT NULL
        GROUP BY kernel_id, part
    ),
    own AS (
        SELECT
            kernel.rank, kernel.device, kernel.step_id, credited.part, kernel.role, kernel.layer,
            SUM(credited.ns) AS ns,
            COUNT(*) AS kernels
        FROM credited
        INNER JOIN kernel USING (id)
        WHERE kernel.step_id IS NOT NULL
        GROUP BY kernel.rank, kernel.device, kernel.step_id, credited.part, kernel.role, kernel.layer
    ),
    known AS (
        SELECT rank, device, step_id, part, role, layer, NULL AS cause, ns, kernels FROM own
        UNION ALL
        SELECT rank, device, step_id, 'idle', NULL, NULL, cause, ns, NULL FROM incoming
    ),
    place AS (SELECT DISTINCT rank, device, step_id FROM kernel WHERE step_id IS NOT NULL),
    -- The rest of the GPU span: there is nothing in it but own kernels, idle time, and kernels of others.
    other AS (
        SELECT
            place.rank, place.device, place.step_id,
            ANY_VALUE(step.gpu_dur) - COALESCE(SUM(known.ns), 0) AS ns
        FROM place
        INNER JOIN step ON place.step_id = step.step_id
        LEFT JOIN known ON place.step_id = known.step_id AND place.device = known.device
        GROUP BY place.rank, place.device, place.step_id
    )
    SELECT rank, device, step_id, part, role, layer, cause, CAST(ns AS BIGINT) AS ns, kernels
    FROM known
    UNION ALL
    SELECT rank, device, step_id, 'other_step', NULL, NULL, NULL, CAST(ns AS BIGINT), NULL
    FROM other
    WHERE ns <> 0
    ORDER BY rank, device, step_id, part, layer, role, cause
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    con.register("incoming", _idle(con))
    yield from query_tables(con, _TIMES)
    con.unregister("incoming")


def _idle(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """For how long a device was idle in the GPU span of each step, by cause.

    Where the GPU spans of steps overlap, the time counts for each of them.
    """
    spans = columns_of(con.sql(_SPANS))
    tables = [_IDLE.empty_table()]
    for rank, device, cause in con.execute(_KINDS).fetchall():
        own = rows_where(spans, (spans["rank"] == rank) & (spans["device"] == device))
        gaps = columns_of(con.sql(_GAPS, params={"rank": rank, "device": device, "cause": cause}))
        ns = Elapsed.of(gaps["ts"], gaps["dur"]).between(own["ts"], own["end_ts"])
        places = (np.full(len(ns), value) for value in (rank, device))
        tables.append(
            pa.table([own["step_id"], *places, pa.array([cause] * len(ns)), ns], schema=_IDLE)
        )
    return pa.concat_tables(tables).filter(pc.field("ns") > 0)
