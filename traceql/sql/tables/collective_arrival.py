# One row per rank and operation that was matched on all its ranks: how late the rank began it, and what its GPU did since the previous operation of the communicator.
#
# Use the view straggler to see only the late rank of each operation, with the cause of its delay.
# @scope  run
# @needs  collective, device_timeline, kernel
# @empty_unless collective
# @column match_id    BIGINT   Operation; the same number as in collective.
# @column rank        BIGINT   Rank.
# @column kernel_id   BIGINT   Kernel of the operation on this rank (kernel.id).
# @column step_id     BIGINT   Step of the kernel; NULL if unknown.
# @column late_ns     BIGINT   How much later this rank began the operation than the earliest rank, after the clock correction, ns.
# @column is_last     BOOLEAN  Whether this is the late rank, for which the others waited.
# @column wait_ns     BIGINT   Wait time of all ranks together in this operation, ns; the same on all ranks.
# @column since_ns    BIGINT   Time from the end of the previous operation of the communicator (or from the start of the rank's GPU span) to the start of this one, ns: the sum of compute_ns, copy_ns, host_ns, comm_ns and other_ns.
# @column compute_ns  BIGINT   Part of since_ns in which a compute kernel ran, ns.
# @column copy_ns     BIGINT   Part of since_ns in which only memory copies or sets ran, ns.
# @column host_ns     BIGINT   Part of since_ns in which the GPU was idle because the host had launched nothing (gap causes host and sync), ns.
# @column comm_ns     BIGINT   Part of since_ns in which operations of other communicators ran, but no compute kernel, ns.
# @column other_ns    BIGINT   Part of since_ns in which the GPU was idle for another reason (all other gap causes), ns.
# @column side_ns     BIGINT   Total duration of the compute kernels that began during since_ns on other streams than the one with the most compute time, ns.
# @column is_first    BOOLEAN  Whether the operation is the first one of its communicator on any of its ranks, so that the trace does not show what delayed the late rank.

"""Adds up what each device did between two operations, by differences of running totals."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from traceql.analysis.intervals import Elapsed, Int64s
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import Columns, mapped_columns, query_tables, rows_where, spilled

# What the device did since the end of the previous operation, or since the start of the GPU span.
_SPENT = pa.schema(
    [
        ("kernel_id", pa.int64()),
        ("since_ts", pa.int64()),
        ("compute_ns", pa.int64()),
        ("comm_ns", pa.int64()),
        ("copy_ns", pa.int64()),
        ("host_ns", pa.int64()),
        ("other_ns", pa.int64()),
        ("side_ns", pa.int64()),
        ("is_first", pa.bool_()),
    ]
)
_STATES_AT_ONCE = 100_000
_SPENT_ON = ("compute_ns", "comm_ns", "copy_ns", "host_ns")
# The time in question begins with the end of the previous operation, or with the GPU span.
_OPERATIONS = """
    WITH every_operation AS (
        SELECT
            collective.kernel_id, collective.late_ns, kernel.rank, kernel.device, kernel.ts,
            LAG(kernel.ts + kernel.dur) OVER (
                PARTITION BY collective.rank, collective.communicator_id ORDER BY kernel.ts, kernel.id
            ) AS previous_end_ts
        FROM collective
        INNER JOIN kernel ON collective.kernel_id = kernel.id
    )
    SELECT
        kernel_id, rank, device, ts,
        LEAST(COALESCE(previous_end_ts, span.first_ts), ts) AS since_ts,
        previous_end_ts IS NULL AS is_first
    FROM every_operation
    INNER JOIN (
        SELECT rank, MIN(ts) AS first_ts FROM device_timeline GROUP BY rank
    ) AS span USING (rank)
    WHERE late_ns IS NOT NULL
"""
_PLACES = "SELECT DISTINCT rank, device FROM device_timeline ORDER BY ALL"
# The number of a kind is its place in _SPENT_ON, from 1.
_STATES = """
    SELECT
        ts, dur,
        CASE part
            WHEN 'computing' THEN 1
            WHEN 'exposed_copy' THEN 3
            WHEN 'idle' THEN 4
            ELSE 2
        END AS kind
    FROM device_timeline
    WHERE rank = $rank AND device = $device AND (part <> 'idle' OR cause IN ('host', 'sync'))
    ORDER BY ts
"""
# Compute kernels on all streams but the one with the most compute time.
_SIDE_KERNELS = """
    WITH computing AS (FROM kernel WHERE category NOT IN ('collective', 'memcpy', 'memset')),
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
_ARRIVALS = """
    SELECT
        collective.match_id, kernel.rank,
        kernel.id AS kernel_id,
        kernel.step_id, collective.late_ns,
        -- If two ranks began last at the same time, the lower one counts.
        ROW_NUMBER() OVER (
            PARTITION BY collective.match_id ORDER BY collective.late_ns DESC, kernel.rank
        ) = 1 AND collective.late_ns > 0 AS is_last,
        (SUM(collective.wait_ns) OVER operation)::BIGINT AS wait_ns,
        kernel.ts - spent.since_ts AS since_ns,
        spent.compute_ns, spent.copy_ns, spent.host_ns, spent.comm_ns, spent.other_ns,
        spent.side_ns,
        BOOL_OR(spent.is_first) OVER operation AS is_first
    FROM incoming AS spent
    INNER JOIN collective USING (kernel_id)
    INNER JOIN kernel ON spent.kernel_id = kernel.id
    WINDOW operation AS (PARTITION BY collective.match_id)
    ORDER BY collective.match_id, kernel.rank
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    with spilled(con, _all_spent(con)) as spent:
        con.register("incoming", spent)
        yield from query_tables(con, _ARRIVALS)
        con.unregister("incoming")


def _all_spent(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    """For each operation that was matched on all its ranks, what its device did before it."""
    yield _SPENT.empty_table()
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
    return pa.table(columns, schema=_SPENT)


def _before(
    con: duckdb.DuckDBPyConnection, rank: int, device: int, instants: Int64s
) -> dict[str, Int64s]:
    """What a device did before each instant, ns, by column.

    Its parts do not overlap. They are read piece by piece, since there are several for each kernel.

    Args:
        instants: sorted, ns.
    """
    parameters = {"rank": rank, "device": device}
    found = {what: np.empty(len(instants), np.int64) for what in _SPENT_ON}
    total = dict.fromkeys(_SPENT_ON, 0)
    done = 0  # instants
    for states in con.sql(_STATES, params=parameters).to_arrow_reader(_STATES_AT_ONCE):
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
