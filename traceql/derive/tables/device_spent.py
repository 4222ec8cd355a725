# One row per rank and operation that was matched on all its ranks: what the GPU did since the previous operation of the communicator.
#
# The table arrival shows these times, together with the wait time of the operation.
# @kind   scratch
# @scope  run
# @needs  collective, device_state, device_time, kernel
# @empty_unless collective
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

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, rows_where
from traceql.elapsed import Elapsed, Int64s
from traceql.spooled import mapped_columns
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
_STATES_AT_ONCE = 100_000
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
_PLACES = "SELECT DISTINCT rank, device FROM device_state ORDER BY ALL"
_STATES = """
    SELECT ts, dur, list_position($kinds, spent_on) AS kind
    FROM device_time
    WHERE rank = $rank AND device = $device AND list_contains($kinds, spent_on)
    ORDER BY ts
"""
# Compute kernels on all streams but the one with the most compute time.
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


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    operations, side = (mapped_columns(con, sql) for sql in (_OPERATIONS, _SIDE_KERNELS))
    for rank, device in con.execute(_PLACES).fetchall():
        own, beside = (_of_device(columns, rank, device) for columns in (operations, side))
        if len(own["ts"]):
            yield _spent(con, rank, device, own, beside)


def _of_device(columns: Columns, rank: int, device: int) -> Columns:
    own = (columns["rank"] == rank) & (columns["device"] == device)
    return rows_where(columns, own)


def _spent(
    con: duckdb.DuckDBPyConnection, rank: int, device: int, operations: Columns, side: Columns
) -> pa.Table:
    """The rows of one device."""
    since, ts = operations["since_ts"], operations["ts"]
    instants, place = np.unique(np.concatenate((since, ts)), return_inverse=True)
    begin, end = np.split(place, 2)
    before = _before(con, rank, device, instants)
    known = {what: total[end] - total[begin] for what, total in before.items()}
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


def _before(
    con: duckdb.DuckDBPyConnection, rank: int, device: int, instants: Int64s
) -> dict[str, Int64s]:
    """What a device did before each instant, ns, by column.

    Its states do not overlap. They are read piece by piece, since there are several for each kernel.

    Args:
        instants: sorted, ns.
    """
    asked = {"rank": rank, "device": device, "kinds": [*_SPENT_ON.values()]}
    found = {what: np.empty(len(instants), np.int64) for what in _SPENT_ON}
    total = dict.fromkeys(_SPENT_ON, 0)
    done = 0  # instants
    for states in con.sql(_STATES, params=asked).to_arrow_reader(_STATES_AT_ONCE):
        ts, dur, kind = (states[name].to_numpy() for name in ("ts", "dur", "kind"))
        first, after = np.searchsorted(instants, (ts[0], ts[-1] + dur[-1]))
        for number, what in enumerate(_SPENT_ON, 1):
            own = Elapsed.of(ts[kind == number], dur[kind == number])
            found[what][done:first] = total[what]
            within = own.between(ts[:1], instants[first:after])
            found[what][first:after] = total[what] + within
            total[what] += int(dur[kind == number].sum())
        done = after
    for what, spent in total.items():
        found[what][done:] = spent
    return found
