# One row per collective or point-to-point operation on one rank.
#
# Rows of different ranks are one operation if they have the same communicator, the same key
# (operation, role, layer and size), the same unit (step) and the same position among equal
# operations of the unit. No match is forced: what does not fit stays unmatched. Operations without
# the profiler's numbers also stay unmatched where times do not decide: if the clocks were never compared and the
# order gives another match, or if a rank lacks operations and others follow within the error of the clocks.
# @schema main
# @scope  run
# @needs  clock, communicator, communicator_description, incomplete_rank, on_reference_clock, operation, operation_plane
# @empty_unless operation
# @column id               BIGINT   Id of the row.
# @column match_id         BIGINT   Number of the operation, the same on every rank that took part; NULL if it was not found on another rank.
# @column rank             BIGINT   Rank.
# @column kernel_id        BIGINT   Kernel that carried out the operation (kernel.id).
# @column op               VARCHAR  Operation: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send, recv, barrier or other.
# @column communicator_id  BIGINT   Communicator, the group of ranks that took part (communicator.communicator_id).
# @column group_ranks      VARCHAR  Ranks of the communicator (the loaded ones, and others that events name), as text; "0 to 1" if data goes one way.
# @column group_size       BIGINT   Number of ranks in the communicator, loaded or not; NULL if unknown.
# @column ranks_found      BIGINT   Number of ranks on which the operation was found; NULL if it was not matched.
# @column bytes            BIGINT   Size of the whole buffer (the output of an all_gather, the input of a reduce_scatter), bytes; NULL if unknown.
# @column bytes_source     VARCHAR  Where bytes comes from: args (the event's own arguments), shapes (inputs of the operator that launched it) or inferred (tokens x hidden size x element size).
# @column late_ns          BIGINT   How much later this rank began than the earliest rank, after the clock correction, ns; NULL unless the operation was found on all its ranks.
# @column wait_ns          BIGINT   Wait time, ns: the part of the kernel's duration before the last rank had begun. Of an operation that was not found on all ranks, the time in which no task (plane) of an Ascend device moved data; NULL elsewhere.
# @column wait_source      VARCHAR  Where wait_ns comes from: ranks (the operation was found on all its ranks) or planes (the tasks of an Ascend device that it consists of); NULL if wait_ns is.
# @column late_place       BIGINT   Number of the rank, in its communicator from 0, that this rank waited for longest, by the planes of its Ascend device; NULL if they do not have it.
# @column late_rank        BIGINT   The same rank as late_place, as the run numbers it; NULL if not all ranks of the communicator are known.
# @column transfer_ns      BIGINT   Transfer time: the rest of the kernel's duration, ns; NULL if wait_ns is.
# @column algbw_gbps       DOUBLE   Algorithm bandwidth: bytes / transfer_ns, 1e9 bytes per second.
# @column busbw_gbps       DOUBLE   Bus bandwidth as nccl-tests defines it: algbw_gbps x 2(n-1)/n for all_reduce, x (n-1)/n for all_gather, reduce_scatter and all_to_all, x 1 for broadcast, reduce, send and recv, 1e9 bytes per second; NULL for other operations.
# @column uncertainty_ns   BIGINT   How much the clocks of the ranks may still differ, ns; 0 if no difference was measured, NULL if the clocks could not be compared.
# @column reliable         BOOLEAN  Whether the clocks are known well enough: transfer_ns and wait_ns (unless it is 0) are at least uncertainty_ns; NULL if that is unknown.

"""Matches operations across ranks on the reference clock, and divides each into wait and transfer."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from traceql.analysis.collectives.operation_matching import (
    KnownClock,
    series_by_communicator,
    shared_numbers,
)
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import columns_of, query_tables

# The number of a unit is the same on all ranks of the communicator; -1 if the unit was not found on the
# rank that the others are compared with. A unit is a step, or a single operation outside of steps.
_PAIRED = pa.schema(
    [("kernel_id", pa.int64()), ("communicator_id", pa.int64()), ("unit", pa.int64())]
)
_SENDERS = (
    "SELECT DISTINCT communicator_id, ranks[1] FROM communicator_description WHERE is_directed"
)
_INCOMPLETE = "SELECT rank FROM incomplete_rank"
_CLOCKS = "SELECT rank, compared_with, tolerance_ns FROM clock"
_OPERATIONS = """
    SELECT
        described.communicator_id, operation.rank, operation.kernel_id,
        on_reference_clock(operation.ts, clock.offset_ns, clock.drift, clock.at_ns) AS ts,
        on_reference_clock(operation.end_ts, clock.offset_ns, clock.drift, clock.at_ns) AS end_ts,
        operation.key, operation.unit, operation.kind,
        COALESCE(operation.sequence, -1) AS sequence,
        operation.synchronising
    FROM operation
    INNER JOIN communicator_description AS described USING (description_id)
    INNER JOIN clock ON operation.rank = clock.rank
    ORDER BY operation.rank, operation.ts, operation.kernel_id
"""
_COLLECTIVES = """
    WITH on_one_clock AS (
        SELECT
            operation.*, paired.communicator_id,
            paired.unit AS shared_unit,
            on_reference_clock(operation.ts, clock.offset_ns, clock.drift, clock.at_ns) AS aligned_ts,
            on_reference_clock(operation.end_ts, clock.offset_ns, clock.drift, clock.at_ns) AS aligned_end_ts,
            clock.residual_ns, clock.tolerance_ns, clock.compared_with
        FROM operation
        INNER JOIN incoming AS paired USING (kernel_id)
        INNER JOIN clock USING (rank)
    ),
    placed AS (
        SELECT
            *,
            ROW_NUMBER() OVER equal_ones AS place,
            COUNT(*) OVER (PARTITION BY communicator_id, shared_unit, key, rank) AS calls
        FROM on_one_clock
        WHERE shared_unit >= 0
        WINDOW equal_ones AS (PARTITION BY communicator_id, shared_unit, key, rank ORDER BY ts, kernel_id)
    ),
    -- If one rank has more equal operations than another, it is unknown which one the other lacks, so
    -- that none of them is matched.
    fitting AS (
        SELECT
            communicator_id, shared_unit, key, place,
            ROW_NUMBER() OVER (ORDER BY MIN(aligned_ts), communicator_id, shared_unit, key, place) - 1 AS match_id,
            COUNT(*) AS ranks,
            MAX(aligned_ts) AS arrival_ts,
            MIN(aligned_ts) AS first_ts,
            -- NULL if the clocks of the ranks were never compared with the same clock.
            CASE WHEN MIN(compared_with) = MAX(compared_with) THEN MAX(residual_ns) END AS uncertainty_ns
        FROM placed
        GROUP BY communicator_id, shared_unit, key, place
        HAVING
            COUNT(*) > 1
            AND MIN(calls) = MAX(calls)
            AND (
                NOT BOOL_AND(synchronising)
                OR MAX(aligned_ts) <= MIN(aligned_end_ts) + MAX(tolerance_ns)
            )
    ),
    matched AS (
        SELECT
            placed.kernel_id, placed.aligned_ts, placed.aligned_end_ts, fitting.match_id,
            fitting.ranks, fitting.arrival_ts, fitting.first_ts, fitting.uncertainty_ns
        FROM placed
        INNER JOIN fitting USING (communicator_id, shared_unit, key, place)
    ),
    known_member AS (
        SELECT DISTINCT
            communicator_id,
            UNNEST(ranks) AS rank,
            generate_subscripts(ranks, 1) - 1 AS place
        FROM communicator_description
        WHERE len(ranks) = group_size
    ),
    timed AS (
        SELECT
            operation.kernel_id, operation.rank, operation.op, communicator.communicator_id,
            communicator.group_ranks, communicator.group_size, matched.match_id,
            matched.ranks AS ranks_found,
            operation.end_ts - operation.ts AS dur,
            CASE
                WHEN operation.bytes_source = 'shapes' AND operation.op = 'all_gather'
                    THEN operation.bytes * communicator.group_size
                ELSE operation.bytes
            END AS bytes,
            operation.bytes_source, matched.uncertainty_ns,
            CASE WHEN matched.ranks = communicator.group_size THEN matched.aligned_ts - matched.first_ts END AS late_ns,
            matched.ranks = communicator.group_size AS is_on_all_ranks,
            CASE
                WHEN matched.ranks = communicator.group_size THEN LEAST(
                    operation.end_ts - operation.ts, matched.arrival_ts - matched.aligned_ts
                )
                ELSE operation_plane.wait_ns
            END AS wait_ns,
            operation_plane.late_place,
            known_member.rank AS late_rank
        FROM operation
        INNER JOIN incoming AS paired USING (kernel_id)
        INNER JOIN communicator USING (communicator_id)
        LEFT JOIN matched USING (kernel_id)
        LEFT JOIN operation_plane USING (kernel_id)
        LEFT JOIN known_member
            ON
                communicator.communicator_id = known_member.communicator_id
                AND operation_plane.late_place = known_member.place
    ),
    moved AS (
        SELECT *, dur - wait_ns AS transfer_ns, bytes / NULLIF(dur - wait_ns, 0) AS algbw_gbps
        FROM timed
    )
    SELECT
        ROW_NUMBER() OVER (ORDER BY kernel_id) - 1 AS id,
        match_id, rank, kernel_id, op, communicator_id, group_ranks, group_size, ranks_found, bytes,
        bytes_source, late_ns, wait_ns,
        CASE WHEN wait_ns IS NOT NULL THEN CASE WHEN is_on_all_ranks THEN 'ranks' ELSE 'planes' END END AS wait_source,
        late_place, late_rank, transfer_ns, algbw_gbps,
        algbw_gbps * CASE
            WHEN op = 'all_reduce' THEN 2.0 * (group_size - 1) / group_size
            WHEN op IN ('all_gather', 'reduce_scatter', 'all_to_all')
                THEN 1.0 * (group_size - 1) / group_size
            WHEN op IN ('broadcast', 'reduce', 'send', 'recv') THEN 1.0
        END AS busbw_gbps,
        CASE WHEN wait_ns IS NOT NULL THEN CASE WHEN is_on_all_ranks THEN uncertainty_ns ELSE 0 END END
            AS uncertainty_ns,
        -- A clock error shifts time between wait and transfer: both must be at least as long. Times of
        -- planes are of one clock.
        (wait_ns IS NOT NULL AND NOT COALESCE(is_on_all_ranks, FALSE))
        OR uncertainty_ns = 0
        OR (uncertainty_ns <= transfer_ns AND (wait_ns = 0 OR uncertainty_ns <= wait_ns)) AS reliable
    FROM moved
    ORDER BY kernel_id
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    con.register("incoming", _paired(con))
    yield from query_tables(con, _COLLECTIVES)
    con.unregister("incoming")


def _paired(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """The communicator and the unit of each operation."""
    senders = dict(con.execute(_SENDERS).fetchall())
    incomplete = {rank for (rank,) in con.execute(_INCOMPLETE).fetchall()}
    clocks = {rank: KnownClock(*known) for rank, *known in con.execute(_CLOCKS).fetchall()}
    by_communicator = series_by_communicator(columns_of(con.sql(_OPERATIONS)))
    tables = [
        pa.table([series.kernel_id, np.full(len(series), number), unit], schema=_PAIRED)
        for number, ranks in by_communicator.items()
        for series, unit in shared_numbers(
            ranks, sender=senders.get(number), incomplete=incomplete, clocks=clocks
        )
    ]
    return pa.concat_tables([_PAIRED.empty_table(), *tables])
