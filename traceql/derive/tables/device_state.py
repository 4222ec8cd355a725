# One row per interval in which the activity of a device does not change.
#
# The intervals of a device cover the GPU span of its rank without overlap, so that time in which
# several activities run counts once.
# @scope  rank
# @needs  classified_kernel, work_class
# @column rank     BIGINT   Rank.
# @column device   BIGINT   Number of the device on its machine.
# @column ts       BIGINT   Start, ns since the run's first event.
# @column dur      BIGINT   Duration, ns.
# @column compute  BOOLEAN  Whether a compute kernel runs: one that neither communicates nor copies.
# @column comm     BOOLEAN  Whether a communication kernel runs (category collective).
# @column copy     BOOLEAN  Whether a memory copy or memory set runs (category memcpy or memset).

"""Counts the activities that run between any two consecutive starts and ends of activities."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import columns_of
from traceql.running import running_by_device
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
_WHAT = ("compute", "comm", "copy")
_KERNELS = """
    SELECT
        rank,
        device,
        ts,
        ts + GREATEST(dur, 0) AS end_ts,
        list_position($what, work_class(category)) - 1 AS what
    FROM classified_kernel
    ORDER BY rank, device
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    kernels = columns_of(con.sql(_KERNELS, params={"what": list(_WHAT)}))
    tables = [_SCHEMA.empty_table()]
    for rank, device, running in running_by_device(_WHAT, kernels):
        places = (np.full(len(running.ts), number) for number in (rank, device))
        columns = [*places, running.ts, running.dur, *running.kinds.values()]
        tables.append(pa.table(columns, schema=_SCHEMA))
    return pa.concat_tables(tables)
