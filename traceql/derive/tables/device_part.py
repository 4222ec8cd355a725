# One row per interval of a device: the part that its time counts for, and the step it belongs to.
#
# The intervals of a device cover the GPU span of its rank without overlap, so that each nanosecond
# counts once. If several activities run, computing comes first, then communication, then copies.
# Waiting is time in which communication kernels run and all of them wait for another rank.
# @scope  run
# @needs  collective, gap, kernel, step, work_class
# @column rank           BIGINT   Rank.
# @column device         BIGINT   Number of the device on its machine.
# @column ts             BIGINT   Start, ns since the run's first event.
# @column dur            BIGINT   Duration, ns.
# @column part           VARCHAR  computing (a compute kernel runs), exposed_transfer (a collective transfers data), exposed_wait (collectives wait for a late rank), exposed_unmatched (collectives run that were not matched on all their ranks: whether they wait is unknown), exposed_copy (only memory copies or sets run) or idle (nothing runs).
# @column cause          VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
# @column is_overlapped  BOOLEAN  Whether a compute kernel and a collective run: overlapped communication, part computing.
# @column step_id        BIGINT   Step of the kernel that began last; of idle time, the step of the kernel that ends it (gap.step_id). NULL if that is unknown.
# @column phase          VARCHAR  Phase of that step; NULL if it is unknown.
# @column kernel_id      BIGINT   Kernel that the time is credited to (kernel.id): of the kernels that run and decide the part, the one that began last; of operations that transfer data, the one that began to do so last. NULL in idle time.

"""Counts activities, where a matched operation first waits and then transfers."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.parts_of_time import Part, parts_of_time
from traceql.running import Bools, Int64s, Running, last_running
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
    SELECT id, ts, COALESCE(step_id, -1) AS step_id
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
_GAPS = """
    SELECT ts, cause, COALESCE(step_id, -1) AS step_id
    FROM gap
    WHERE
        rank = $rank AND device = $device
        AND ts >= $since AND ts >= $begin AND ts < $end
    ORDER BY ts
"""
_STEPS = "SELECT step_id, phase FROM step ORDER BY step_id"


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    steps = con.sql(_STEPS).to_arrow_table()
    for part in parts_of_time(con, "kernel"):
        asked = {"what": list(_PARTS), **part.parameters}
        activities = columns_of(con.sql(_ACTIVITIES, params=asked))
        kernels = columns_of(con.sql(_KERNELS, params=part.parameters))
        gaps = con.sql(_GAPS, params=part.parameters).to_arrow_table()
        running = Running.of(
            list(_PARTS),
            activities["what"],
            activities["ts"],
            activities["end_ts"],
            span=(part.begin, part.end),
        )
        yield _intervals(part, running, kernels, activities, gaps, steps)


def _intervals(
    part: Part,
    running: Running,
    kernels: Columns,
    activities: Columns,
    gaps: pa.Table,
    steps: pa.Table,
) -> pa.Table:
    """The rows of a part; its kernels, activities and gaps are in the order of their starts."""
    kind = np.select(list(running.kinds.values()), list(range(len(_PARTS))), len(_PARTS))
    comm = np.logical_or.reduce([running.kinds[comm] for comm in _COMM])
    gap = _places(gaps["ts"].to_numpy(), running.ts)
    gap[kind < len(_PARTS)] = -1
    step_id = np.where(
        gap >= 0,
        _at(gaps["step_id"].to_numpy(), gap),
        np.where(kind < len(_PARTS), _begun_last(kernels, running.ts), -1),
    )
    step = _places(steps["step_id"].to_numpy(), step_id)
    columns = [
        np.full(len(kind), part.rank),
        np.full(len(kind), part.device),
        running.ts,
        running.dur,
        pa.array([*_PARTS.values(), "idle"]).take(pa.array(kind)),
        gaps["cause"].combine_chunks().take(_known(gap)),
        comm & running.kinds["compute"],
        _known(step_id, where=step >= 0),
        steps["phase"].combine_chunks().take(_known(step)),
        _credited(activities, running.ts, kind),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _places(known: Int64s, wanted: Int64s) -> Int64s:
    """The place of each wanted number in a sorted array; -1 if it is not there."""
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = -1
    place[_at(known, place) != wanted] = -1
    return place


def _at(numbers: Int64s, place: Int64s) -> Int64s:
    """The number at each place; -1 at place -1."""
    return np.append(numbers, -1)[place]


def _known(numbers: Int64s, *, where: Bools | None = None) -> pa.Array:
    """The numbers; NULL for those that are not known."""
    return pa.array(numbers, mask=~where if where is not None else numbers < 0)


def _begun_last(kernels: Columns, instants: Int64s) -> Int64s:
    """The step of the kernel that began last at each instant or before; -1 without one."""
    place = np.searchsorted(kernels["ts"], instants, side="right") - 1
    return _at(kernels["step_id"], place)


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
