# One row per matched operation on one rank: what its GPU did since the operation of the same communicator before.
# @kind   scratch
# @scope  run
# @needs  collective, device_state, device_time, kernel, work_class
# @column kernel_id   BIGINT   Row of kernel.
# @column since_ts    BIGINT   Where the time to account for begins: the end of the operation before, or the start of the GPU span, ns since trace.base_time_ns.
# @column compute_ns  BIGINT   A compute kernel ran, ns.
# @column comm_ns     BIGINT   Only communication kernels ran, perhaps beside copies, ns.
# @column copy_ns     BIGINT   Only copies ran, ns.
# @column host_ns     BIGINT   The device was idle because of the host (gaps of cause host or sync), ns.
# @column other_ns    BIGINT   The rest, ns.
# @column side_ns     BIGINT   Summed duration of compute kernels that began meanwhile on other streams than the one that computes most, ns.
# @column is_first    BOOLEAN  Whether the rank has no operation of the communicator before it.

"""Sums what each device did between two operations, from running totals."""

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
# From the end of the operation before, or the beginning of the rank's GPU span.
_OPERATIONS = """
    WITH every_operation AS (
        SELECT
            collective.kernel_id,
            collective.wait_ns,
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
    WHERE wait_ns IS NOT NULL
"""
_STATES = "SELECT rank, device, ts, dur, spent_on FROM device_time"
# Kernels beside those of the stream that computes most.
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
    """Of one device."""
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
