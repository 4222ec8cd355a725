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
# @column waiting_id     BIGINT   Communication kernel that began last (kernel.id), if the part is exposed_wait; else NULL.

"""Counts activities, where a matched operation first waits and then transfers."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.running import Bools, Int64s, Running, running_by_device
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
    SELECT id, rank, device, ts FROM kernel ORDER BY rank, device, ts, id
"""
_ACTIVITIES = """
    WITH phased AS (
        SELECT
            kernel.id,
            kernel.rank,
            kernel.device,
            kernel.ts,
            kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
            work_class(kernel.category) AS class,
            kernel.ts + collective.wait_ns AS arrival_ts
        FROM kernel
        LEFT JOIN collective ON kernel.id = collective.kernel_id
    ),
    activity AS (
        SELECT
            id,
            rank,
            device,
            ts,
            end_ts,
            CASE WHEN class = 'comm' THEN 'unmatched' ELSE class END AS what
        FROM phased
        WHERE arrival_ts IS NULL
        UNION ALL
        SELECT id, rank, device, ts, arrival_ts, 'wait' FROM phased WHERE arrival_ts IS NOT NULL
        UNION ALL
        SELECT id, rank, device, arrival_ts, end_ts, 'transfer' FROM phased WHERE arrival_ts IS NOT NULL
    )
    SELECT id, rank, device, ts, end_ts, list_position($what, what) - 1 AS what
    FROM activity
    ORDER BY rank, device, ts, id
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    activities = columns_of(con.sql(_ACTIVITIES, params={"what": list(_PARTS)}))
    kernels = columns_of(con.sql(_KERNELS))
    tables = [_SCHEMA.empty_table()]
    for rank, device, running in running_by_device(list(_PARTS), activities):
        begun, own = (
            rows_where(columns, (columns["rank"] == rank) & (columns["device"] == device))
            for columns in (kernels, activities)
        )
        waits = rows_where(own, own["what"] == list(_PARTS).index("wait"))
        tables.append(_intervals(rank, device, running, begun, waits))
    return pa.concat_tables(tables)


def _intervals(
    rank: int, device: int, running: Running, kernels: Columns, waits: Columns
) -> pa.Table:
    """The rows of one device; its activities and waits are in the order of their starts."""
    part = np.select(list(running.kinds.values()), list(_PARTS.values()), "idle")
    comm = np.logical_or.reduce([running.kinds[kind] for kind in _COMM])
    columns = [
        np.full(len(part), rank),
        np.full(len(part), device),
        running.ts,
        running.dur,
        part.astype(object),
        comm & running.kinds["compute"],
        _begun_last(kernels, running.ts),
        _waiting(waits, running.ts, part == _PARTS["wait"]),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _begun_last(kernels: Columns, instants: Int64s) -> pa.Array:
    """The kernel that began last at each instant or before."""
    place = np.searchsorted(kernels["ts"], instants, side="right") - 1
    return pa.array(kernels["id"][np.maximum(place, 0)], mask=place < 0)


def _waiting(waits: Columns, instants: Int64s, wanted: Bools) -> pa.Array:
    """Of the operations that wait at each wanted instant the one that began last; else NULL."""
    place = np.searchsorted(waits["ts"], instants[wanted], side="right") - 1
    while (over := waits["end_ts"][place] <= instants[wanted]).any():
        place[over] -= 1
    found = np.zeros(len(instants), np.int64)
    found[wanted] = waits["id"][place]
    return pa.array(found, mask=~wanted)
