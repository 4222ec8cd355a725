# One row per interval in which a device did nothing, with the kernels before and after it.
# @kind   scratch
# @scope  rank
# @needs  classified_kernel, device_state
# @column rank                BIGINT  Rank.
# @column device              BIGINT  Number of the device on its machine.
# @column ts                  BIGINT  Start, ns since the run's first event.
# @column dur                 BIGINT  Duration, ns.
# @column previous_kernel_id  BIGINT  Kernel that ended when the interval began; NULL at the start of the GPU span.
# @column next_kernel_id      BIGINT  Kernel that ended the interval; NULL at the end of the GPU span.

"""Finds the kernels that end and begin at the borders of each interval without activity."""

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.table_head import declared_schema

Int64s = npt.NDArray[np.int64]

_SCHEMA = declared_schema(__file__)
_KERNELS = "SELECT rank, device, id, ts, ts + GREATEST(dur, 0) AS end_ts FROM classified_kernel"
_IDLE = """
    SELECT rank, device, ts, ts + dur AS end_ts
    FROM device_state
    WHERE NOT (compute OR comm OR copy)
    ORDER BY rank, device, ts
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    kernels, idle = columns_of(con.sql(_KERNELS)), columns_of(con.sql(_IDLE))
    places = sorted({*zip(idle["rank"].tolist(), idle["device"].tolist(), strict=True)})
    tables = [
        _idle_table(_of_device(idle, rank, device), _of_device(kernels, rank, device))
        for rank, device in places
    ]
    return pa.concat_tables([_SCHEMA.empty_table(), *tables])


def _of_device(columns: Columns, rank: int, device: int) -> Columns:
    return rows_where(columns, (columns["rank"] == rank) & (columns["device"] == device))


def _idle_table(idle: Columns, kernels: Columns) -> pa.Table:
    begin, end = idle["ts"], idle["end_ts"]
    by_end = np.lexsort((kernels["id"], kernels["end_ts"]))
    by_start = np.lexsort((kernels["id"], kernels["ts"]))
    before = np.searchsorted(kernels["end_ts"][by_end], begin, side="right") - 1
    after = np.searchsorted(kernels["ts"][by_start], end)
    columns = [
        idle["rank"],
        idle["device"],
        begin,
        end - begin,
        _ids_at(kernels["id"][by_end], kernels["end_ts"][by_end], before, begin),
        _ids_at(kernels["id"][by_start], kernels["ts"][by_start], after, end),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _ids_at(ids: Int64s, times: Int64s, place: Int64s, wanted: Int64s) -> pa.Array:
    """The ids at these places, NULL if the time at a place is not the wanted one."""
    inside = np.clip(place, 0, len(ids) - 1)
    return pa.array(ids[inside], mask=(place != inside) | (times[inside] != wanted))
