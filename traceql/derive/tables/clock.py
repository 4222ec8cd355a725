# One row per rank: how its clock runs against another rank's. Times of other tables are by the rank's own clock.
#
# Times in other tables are by the rank's own clock; the macro on_reference_clock converts them.
# @scope  run
# @needs  described_communicator, operation, trace
# @column rank           BIGINT   Rank.
# @column compared_with  BIGINT   The rank whose clock this one is set by: the first that collectives lead to.
# @column offset_ns      BIGINT   Ahead of that rank's at at_ns, ns: time by that rank's clock = ts - offset_ns - drift x (ts - at_ns).
# @column drift          DOUBLE   How much more it gets ahead, ns per ns.
# @column at_ns          BIGINT   When offset_ns holds, ns since trace.base_time_ns.
# @column residual_ns    BIGINT   What 9 of 10 ends of operations differ by after that, ns; of a shared clock what ends differ by, where that is more than 2 us, else 0.
# @column tolerance_ns   BIGINT   Times by two corrected clocks that differ by no more than this may be the same instant, ns.
# @column measured_ns    BIGINT   Ends of operations on this rank after those on the rank that it was compared with, median, ns.
# @column operations     BIGINT   Operations that it was measured with.
# @column source         VARCHAR  reference, shared (ends agree), or ends of operations.

"""Compares the ends of operations that ranks did together."""

import duckdb
import pyarrow as pa

from traceql.arrow_duckdb import columns_of
from traceql.collectives.clocks import clocks
from traceql.collectives.matching import series_by_communicator
from traceql.table_head import declared_schema

_RANKS = "SELECT rank FROM trace ORDER BY rank"
_OPERATIONS = """
    SELECT
        described.communicator_id,
        operation.rank,
        operation.kernel_id,
        operation.ts,
        operation.end_ts,
        operation.key,
        operation.unit,
        operation.kind,
        COALESCE(operation.sequence, -1) AS sequence,
        operation.synchronising
    FROM operation
    INNER JOIN described_communicator AS described USING (described_id)
    WHERE NOT described.is_directed
    ORDER BY operation.rank, operation.ts, operation.kernel_id
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    ranks = [rank for (rank,) in con.execute(_RANKS).fetchall()]
    groups = series_by_communicator(columns_of(con.sql(_OPERATIONS)))
    return pa.Table.from_pylist(clocks(ranks, groups.values()), declared_schema(__file__))
