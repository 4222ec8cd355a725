# One row per interval in which the activity of a device does not change.
#
# The intervals of a device cover its GPU span, from its first start to its last end, without overlap,
# so that time in which several activities run counts once.
# @scope  rank
# @needs  classified_kernel
# @empty_unless classified_kernel
# @column rank     BIGINT   Rank.
# @column device   BIGINT   Number of the device on its machine.
# @column ts       BIGINT   Start, ns since the run's first event.
# @column dur      BIGINT   Duration, ns.
# @column compute  BOOLEAN  Whether a compute kernel runs: one that neither communicates nor copies.
# @column comm     BOOLEAN  Whether a communication kernel runs (category collective).
# @column copy     BOOLEAN  Whether a memory copy or memory set runs (category memcpy or memset).

"""Counts the activities that run between any two consecutive starts and ends of activities."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from traceql.analysis.intervals import Running
from traceql.analysis.parts_of_time import parts_of_time
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import columns_of, rows_where

_SCHEMA = declared_schema(__file__)
_WHAT = ("compute", "comm", "copy")
_KERNELS = """
    SELECT
        ts,
        ts + GREATEST(dur, 0) AS end_ts,
        -- The place in _WHAT.
        CASE WHEN category = 'collective' THEN 1 WHEN category IN ('memcpy', 'memset') THEN 2 ELSE 0 END AS what
    FROM classified_kernel
    WHERE
        rank = $rank AND device = $device
        AND ts >= $since AND ts < $end AND ts + GREATEST(dur, 0) >= $begin
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    for part in parts_of_time(con, "classified_kernel"):
        kernels = columns_of(con.sql(_KERNELS, params=part.parameters))
        activities = {}
        for number, what in enumerate(_WHAT):
            own = rows_where(kernels, kernels["what"] == number)
            activities[what] = (own["ts"], own["end_ts"])
        running = Running.of(activities, span=(part.begin, part.end))
        places = (np.full(len(running.ts), number) for number in (part.rank, part.device))
        columns = [*places, running.ts, running.dur, *running.kinds.values()]
        yield pa.table(columns, schema=_SCHEMA)
