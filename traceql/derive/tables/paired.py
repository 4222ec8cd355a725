# One row per operation on one rank: its communicator, and the number of its unit that all ranks share.
#
# A unit is a step, or a single operation outside of steps.
# @kind   scratch
# @scope  run
# @needs  clock, described_communicator, on_reference_clock, operation
# @empty_unless operation
# @column kernel_id        BIGINT  Kernel of the operation (operation.kernel_id).
# @column communicator_id  BIGINT  Communicator (communicator.communicator_id).
# @column unit             BIGINT  Number of the unit, the same on all ranks of the communicator; -1 if it was not found on the rank that the others are compared with.

"""Finds the steps and operations that ranks share, by times on the reference clock."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import columns_of
from traceql.collectives.matching import series_by_communicator, shared_numbers
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
_SENDERS = "SELECT DISTINCT communicator_id, ranks[1] FROM described_communicator WHERE is_directed"
_OPERATIONS = """
    SELECT
        described.communicator_id,
        operation.rank,
        operation.kernel_id,
        on_reference_clock(operation.ts, clock.offset_ns, clock.drift, clock.at_ns) AS ts,
        on_reference_clock(operation.end_ts, clock.offset_ns, clock.drift, clock.at_ns) AS end_ts,
        operation.key,
        operation.unit,
        operation.kind,
        COALESCE(operation.sequence, -1) AS sequence,
        operation.synchronising
    FROM operation
    INNER JOIN described_communicator AS described USING (described_id)
    INNER JOIN clock ON operation.rank = clock.rank
    ORDER BY operation.rank, operation.ts, operation.kernel_id
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    senders = dict(con.execute(_SENDERS).fetchall())
    by_communicator = series_by_communicator(columns_of(con.sql(_OPERATIONS)))
    tables = [
        pa.table([series.kernel_id, np.full(len(series), number), unit], schema=_SCHEMA)
        for number, ranks in by_communicator.items()
        for series, unit in shared_numbers(ranks, sender=senders.get(number))
    ]
    return pa.concat_tables([_SCHEMA.empty_table(), *tables])
