"""What each rank's GPU did from one operation of a group to the next."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.elapsed import Elapsed
from traceql.loading.arrow import Columns, columns_of, rows_where, write_table

_WHAT = ("compute_ns", "comm_ns", "copy_ns", "host_ns")
_SPENT = pa.schema(
    [
        *((name, pa.int64()) for name in ("kernel_id", "since_ts", *_WHAT, "other_ns", "side_ns")),
        ("is_first", pa.bool_()),
    ]
)
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
                PARTITION BY collective.rank, collective.group_ranks ORDER BY kernel.ts, kernel.id
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
_STATES = """  -- `what` is a place in _WHAT
    SELECT
        rank,
        device,
        ts,
        dur,
        CASE WHEN compute THEN 0 WHEN comm THEN 1 ELSE 2 END AS what
    FROM device_state
    WHERE compute OR comm OR copy
    UNION ALL
    SELECT rank, device, ts, dur, 3 FROM gap WHERE cause IN ('host', 'sync')
"""
# Kernels beside those of the stream that computes most.
_SIDE_KERNELS = """
    WITH computing AS (
        FROM kernel WHERE category NOT IN ('collective', 'memcpy', 'memset')
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


def write_spent(con: duckdb.DuckDBPyConnection) -> None:
    """Writes `spent`: of each matched operation, what its GPU did since the one before.

    since_ts, where the time to account for begins; other_ns, what is left of it; is_first,
    whether the rank has no operation of its group before it.
    """
    operations, states = columns_of(con.sql(_OPERATIONS)), columns_of(con.sql(_STATES))
    side = columns_of(con.sql(_SIDE_KERNELS))
    tables = [_SPENT.empty_table()]
    for rank, device in _places(operations):
        own, of_device, beside = (
            _of_device(columns, rank, device) for columns in (operations, states, side)
        )
        tables.append(_spent(own, of_device, beside))
    write_table(con, "spent", pa.concat_tables(tables))


def _of_device(columns: Columns, rank: int, device: int) -> Columns:
    own = (columns["rank"] == rank) & (columns["device"] == device)
    return rows_where(columns, own)


def _places(operations: Columns) -> set[tuple[int, int]]:
    return {*zip(operations["rank"].tolist(), operations["device"].tolist(), strict=True)}


def _spent(operations: Columns, states: Columns, side: Columns) -> pa.Table:
    """Of one device."""
    since, ts = operations["since_ts"], operations["ts"]
    known = {}
    for number, what in enumerate(_WHAT):
        of_kind = states["what"] == number
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
    return pa.table(columns, schema=_SPENT)
