# One row per rank and operation that was matched on all its ranks: what the GPU did since the previous operation of the communicator.
#
# The table arrival shows these times, together with the wait time of the operation.
# @kind   scratch
# @scope  run
# @needs  collective, device_state, device_time, kernel, work_class
# @column kernel_id   BIGINT   Kernel of the operation on this rank (kernel.id).
# @column since_ts    BIGINT   Start of the time in question: the end of the previous operation, or the start of the rank's GPU span if there is none, ns since the run's first event.
# @column compute_ns  BIGINT   Time in which a compute kernel ran, ns.
# @column comm_ns     BIGINT   Time in which communication kernels ran, possibly with copies, but no compute kernel, ns.
# @column copy_ns     BIGINT   Time in which only memory copies or sets ran, ns.
# @column host_ns     BIGINT   Time in which the device was idle because the host had launched nothing (gap causes host and sync), ns.
# @column other_ns    BIGINT   Time in which the device was idle for another reason (all other gap causes), ns.
# @column side_ns     BIGINT   Total duration of the compute kernels that began in that time on other streams than the one with the most compute time, ns.
# @column is_first    BOOLEAN  Whether the rank has no earlier operation of the communicator.

"""Adds up what each device did between two operations, by differences of running totals."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.elapsed import Elapsed
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
_SPENT_ON = {
    "compute_ns": "kernel",
    "comm_ns": "communication",
    "copy_ns": "copy",
    "host_ns": "host",
}
# The time in question begins with the end of the previous operation, or with the GPU span.
_OPERATIONS = """
    WITH every_operation AS (
        SELECT
            collective.kernel_id,
            collective.late_ns,
            kernel.rank,
            kernel.device,
            kernel.ts,
            LAG(kernel.ts + kernel.dur) OVER (
                PARTITION BY collective.rank, collective.communicator_id ORDER BY kernel.ts, kernel.id
            ) AS previous_end_ts
        FROM collective
        INNER JOIN kernel ON collective.kernel_id = kernel.id
    )
    SELECT
        kernel_id,
        rank,
        device,
        ts,
        LEAST(COALESCE(previous_end_ts, span.first_ts), ts) AS since_ts,
        previous_end_ts IS NULL AS is_first
    FROM every_operation
    INNER JOIN (
        SELECT rank, MIN(ts) AS first_ts FROM device_state GROUP BY rank
    ) AS span USING (rank)
    WHERE late_ns IS NOT NULL
"""
_STATES = "SELECT rank, device, ts, dur, spent_on FROM device_time"
# Compute kernels on all streams but the one with the most compute time.
_SIDE_KERNELS = """
    WITH computing AS (
        FROM kernel WHERE work_class(category) = 'compute'
    ),
    stream_time AS (
        SELECT rank, device, stream, SUM(dur) AS ns FROM computing GROUP BY rank, device, stream
    )
    SELECT rank, device, ts, dur
    FROM computing
    INNER JOIN (
        FROM stream_time QUALIFY ns < MAX(ns) OVER (PARTITION BY rank, device)
    ) AS side USING (rank, device, stream)
    ORDER BY ts
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    operations, states = columns_of(con.sql(_OPERATIONS)), columns_of(con.sql(_STATES))
    side = columns_of(con.sql(_SIDE_KERNELS))
    tables = [_SCHEMA.empty_table()]
    for rank, device in _places(operations):
        own, of_device, beside = (
            _of_device(columns, rank, device) for columns in (operations, states, side)
        )
        tables.append(_spent(own, of_device, beside))
    return pa.concat_tables(tables)


def _of_device(columns: Columns, rank: int, device: int) -> Columns:
    own = (columns["rank"] == rank) & (columns["device"] == device)
    return rows_where(columns, own)


def _places(operations: Columns) -> set[tuple[int, int]]:
    return {*zip(operations["rank"].tolist(), operations["device"].tolist(), strict=True)}


def _spent(operations: Columns, states: Columns, side: Columns) -> pa.Table:
    """The rows of one device."""
    since, ts = operations["since_ts"], operations["ts"]
    known = {}
    for what, spent_on in _SPENT_ON.items():
        of_kind = states["spent_on"] == spent_on
        known[what] = Elapsed.of(states["ts"][of_kind], states["dur"][of_kind]).between(since, ts)
    begun = np.append(0, np.cumsum(side["dur"]))
    columns = {
        "kernel_id": operations["kernel_id"],
        "since_ts": since,
        **known,
        "other_ns": ts - since - sum(known.values()),
        "side_ns": begun[np.searchsorted(side["ts"], ts)]
        - begun[np.searchsorted(side["ts"], since)],
        "is_first": operations["is_first"],
    }
    return pa.table(columns, schema=_SCHEMA)
