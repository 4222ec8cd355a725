# One row per rank: how its clock differs from the reference clock.
#
# Times in other tables are by the rank's own clock. The macro on_reference_clock converts them:
# time by the reference clock = ts - offset_ns - drift x (ts - at_ns).
# @scope  run
# @needs  communicator_description, incomplete_rank, operation, trace
# @column rank           BIGINT   Rank.
# @column compared_with  BIGINT   Reference rank: the lowest rank that collectives connect with this one, directly or through other ranks.
# @column offset_ns      BIGINT   How far this clock is ahead of the reference clock at the time at_ns, ns; 0 if the ranks share a clock.
# @column drift          DOUBLE   How much further this clock gets ahead, ns per ns.
# @column at_ns          BIGINT   Time at which offset_ns holds, ns since the run's first event.
# @column residual_ns    BIGINT   Error that remains, ns: the 90th percentile of the differences between ends of operations after the correction; for a shared clock the measured difference if it is more than 2 µs, else 0.
# @column tolerance_ns   BIGINT   Largest difference at which two times by corrected clocks may still be the same instant, ns.
# @column measured_ns    BIGINT   How much later operations ended on this rank than on the rank that it was measured with, before any correction, ns; NULL for the reference rank.
# @column operations     BIGINT   Number of operations that the difference was measured with.
# @column source         VARCHAR  reference (this is the reference clock), shared (operations end at the same time on both ranks, so that nothing is corrected) or ends of operations (the clock is corrected by them).

"""Measures clocks by the ends of collectives, which all ranks reach together."""

import duckdb
import pyarrow as pa

from traceql.analysis.collectives.clock_offset import clocks
from traceql.analysis.collectives.operation_matching import series_by_communicator
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import columns_of

_RANKS = "SELECT rank FROM trace WHERE rank IS NOT NULL ORDER BY rank"
_INCOMPLETE = "SELECT rank FROM incomplete_rank"
_OPERATIONS = """
    SELECT
        described.communicator_id, operation.rank, operation.kernel_id, operation.ts,
        operation.end_ts, operation.key, operation.unit, operation.kind,
        COALESCE(operation.sequence, -1) AS sequence,
        operation.synchronising
    FROM operation
    INNER JOIN communicator_description AS described USING (description_id)
    WHERE NOT described.is_directed
    ORDER BY operation.rank, operation.ts, operation.kernel_id
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    ranks = [rank for (rank,) in con.execute(_RANKS).fetchall()]
    groups = series_by_communicator(columns_of(con.sql(_OPERATIONS)))
    incomplete = {rank for (rank,) in con.execute(_INCOMPLETE).fetchall()}
    found = clocks(ranks, groups.values(), incomplete)
    return pa.Table.from_pylist(found, declared_schema(__file__))
