# One row per interval of a device in which the part that its time counts for does not change.
#
# The table device_part adds the step and the cause.
# @kind   scratch
# @scope  run
# @needs  collective, kernel, work_class
# @column rank           BIGINT   Rank.
# @column device         BIGINT   Number of the device on its machine.
# @column ts             BIGINT   Start, ns since the run's first event.
# @column dur            BIGINT   Duration, ns.
# @column part           VARCHAR  Part, as in device_part.
# @column is_overlapped  BOOLEAN  Whether a compute kernel and a communication kernel run.
# @column begun_id       BIGINT   Kernel that began last on the device at the start of the interval or before (kernel.id); NULL without one.
# @column running_id     BIGINT   Kernel that the time is credited to (kernel.id): of the kernels that run and decide the part, the one that began last; of operations that transfer data, the one that began to do so last. NULL in idle time.

"""Counts activities, where a matched operation first waits and then transfers."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.parts_of_time import Part, parts_of_time
from traceql.running import Int64s, Running, last_running
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
# Of the kinds that run, the first one decides the part. While any operation transfers data, the
# time is transfer time; whether ranks wait is known only if all operations that run are matched.
_PARTS = {
    "compute": "computing",
    "transfer": "exposed_transfer",
    "unmatched": "exposed_unmatched",
    "wait": "exposed_wait",
    "copy": "exposed_copy",
}
_COMM = ("transfer", "unmatched", "wait")
_KERNELS = """
    SELECT id, ts
    FROM kernel
    WHERE
        rank = $rank AND device = $device
        AND ts >= $since AND ts >= $begin AND ts <= $end
    ORDER BY ts, id
"""
_ACTIVITIES = """
    WITH phased AS (
        SELECT
            kernel.id,
            kernel.ts,
            kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
            work_class(kernel.category) AS class,
            kernel.ts + collective.wait_ns AS arrival_ts
        FROM kernel
        LEFT JOIN collective ON kernel.id = collective.kernel_id
        WHERE
            kernel.rank = $rank AND kernel.device = $device
            AND kernel.ts >= $since AND kernel.ts < $end
            AND kernel.ts + GREATEST(kernel.dur, 0) >= $begin
    ),
    activity AS (
        SELECT
            id,
            ts,
            end_ts,
            CASE WHEN class = 'comm' THEN 'unmatched' ELSE class END AS what
        FROM phased
        WHERE arrival_ts IS NULL
        UNION ALL
        SELECT id, ts, arrival_ts, 'wait' FROM phased WHERE arrival_ts IS NOT NULL
        UNION ALL
        SELECT id, arrival_ts, end_ts, 'transfer' FROM phased WHERE arrival_ts IS NOT NULL
    )
    SELECT id, ts, end_ts, list_position($what, what) - 1 AS what
    FROM activity
    ORDER BY ts, id
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    for part in parts_of_time(con, "kernel"):
        asked = {"what": list(_PARTS), **part.parameters}
        activities = columns_of(con.sql(_ACTIVITIES, params=asked))
        kernels = columns_of(con.sql(_KERNELS, params=part.parameters))
        running = Running.of(
            list(_PARTS),
            activities["what"],
            activities["ts"],
            activities["end_ts"],
            span=(part.begin, part.end),
        )
        yield _intervals(part, running, kernels, activities)


def _intervals(part: Part, running: Running, kernels: Columns, activities: Columns) -> pa.Table:
    """The rows of a part; its kernels and activities are in the order of their starts."""
    kind = np.select(list(running.kinds.values()), list(range(len(_PARTS))), len(_PARTS))
    counts_for = np.array([*_PARTS.values(), "idle"], object)[kind]
    comm = np.logical_or.reduce([running.kinds[comm] for comm in _COMM])
    columns = [
        np.full(len(kind), part.rank),
        np.full(len(kind), part.device),
        running.ts,
        running.dur,
        counts_for,
        comm & running.kinds["compute"],
        _begun_last(kernels, running.ts),
        _credited(activities, running.ts, kind),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _begun_last(kernels: Columns, instants: Int64s) -> pa.Array:
    """The kernel that began last at each instant or before."""
    place = np.searchsorted(kernels["ts"], instants, side="right") - 1
    return pa.array(kernels["id"][np.maximum(place, 0)], mask=place < 0)


def _credited(activities: Columns, instants: Int64s, kind: Int64s) -> pa.Array:
    """Of the activities of a kind that run at each instant the one that began last.

    Args:
        kind: the place in `_PARTS` of the kind that decides the part at each instant; a higher
            number if nothing runs.
    """
    found = np.zeros(len(instants), np.int64)
    for number in range(len(_PARTS)):
        own = rows_where(activities, activities["what"] == number)
        wanted = kind == number
        found[wanted] = own["id"][last_running(own["ts"], own["end_ts"], instants[wanted])]
    return pa.array(found, mask=kind == len(_PARTS))
