"""What each device was doing at any time, and which kernels bound the time that it did nothing."""

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.loading.arrow import Columns, columns_of, rows_where, write_table

Int64s = npt.NDArray[np.int64]

_WHAT = ("compute", "comm", "copy")
_DEVICE_STATE = pa.schema(
    [
        *((name, pa.int64()) for name in ("rank", "device", "ts", "dur")),
        *((name, pa.bool_()) for name in _WHAT),
    ]
)
_IDLE = pa.schema(
    [
        (name, pa.int64())
        for name in ("rank", "device", "ts", "dur", "previous_kernel_id", "next_kernel_id")
    ]
)
_KERNELS = """  -- `what` is a place in _WHAT
    SELECT
        rank,
        device,
        id,
        ts,
        ts + GREATEST(dur, 0) AS end_ts,
        CASE
            WHEN category = 'collective' THEN 1 WHEN category IN ('memcpy', 'memset') THEN 2 ELSE 0
        END AS what
    FROM kernel
    ORDER BY rank, device
"""


@dataclass(frozen=True)
class _States:
    """Intervals in which a device's activity does not change.

    Attributes:
        ts: where each begins, and at the end where the last ends.
        running: for each of _WHAT, whether it runs.
    """

    ts: Int64s
    running: dict[str, npt.NDArray[np.bool_]]


def write_device_states(con: duckdb.DuckDBPyConnection) -> None:
    """Writes `device_state`, the exact partition of each rank's GPU span by what its device was
    doing, and `idle`, its intervals without a kernel, with those that ended and began with it.
    """
    kernels = columns_of(con.sql(_KERNELS))
    states, idle = [_DEVICE_STATE.empty_table()], [_IDLE.empty_table()]
    for rank in np.unique(kernels["rank"]).tolist():
        of_rank = rows_where(kernels, kernels["rank"] == rank)
        # A rank's window is one for all its devices.
        span = int(of_rank["ts"].min()), int(of_rank["end_ts"].max())
        for device in np.unique(of_rank["device"]).tolist():
            of_device = rows_where(of_rank, of_rank["device"] == device)
            found = _states(of_device, span)
            states.append(_state_table(rank, device, found))
            idle.append(_idle_table(rank, device, found, of_device))
    write_table(con, "device_state", pa.concat_tables(states))
    write_table(con, "idle", pa.concat_tables(idle))


def _states(kernels: Columns, span: tuple[int, int]) -> _States:
    """Counts what is open between any two consecutive starts and ends."""
    ts = np.concatenate((kernels["ts"], kernels["end_ts"], span))
    order = np.argsort(ts, kind="stable")
    # Of edges at one instant only the last has an interval after it, and the sums of all of them.
    instants = ts[order]
    last = np.flatnonzero(np.diff(instants))
    running = {}
    for number, what in enumerate(_WHAT):
        begun = (kernels["what"] == number).astype(np.int64)
        edge = np.concatenate((begun, -begun, np.zeros(len(span), np.int64)))
        running[what] = np.cumsum(edge[order])[last] > 0
    return _States(np.append(instants[last], instants[-1]), running)


def _state_table(rank: int, device: int, states: _States) -> pa.Table:
    dur = np.diff(states.ts)
    places = (np.full(len(dur), rank), np.full(len(dur), device))
    return pa.table([*places, states.ts[:-1], dur, *states.running.values()], schema=_DEVICE_STATE)


def _idle_table(rank: int, device: int, states: _States, kernels: Columns) -> pa.Table:
    at = np.flatnonzero(~np.any(list(states.running.values()), axis=0))
    begin, end = states.ts[at], states.ts[at + 1]
    by_end = np.lexsort((kernels["id"], kernels["end_ts"]))
    by_start = np.lexsort((kernels["id"], kernels["ts"]))
    before = np.searchsorted(kernels["end_ts"][by_end], begin, side="right") - 1
    after = np.searchsorted(kernels["ts"][by_start], end)
    columns = [
        np.full(len(at), rank),
        np.full(len(at), device),
        begin,
        end - begin,
        _ids_at(kernels["id"][by_end], kernels["end_ts"][by_end], before, begin),
        _ids_at(kernels["id"][by_start], kernels["ts"][by_start], after, end),
    ]
    return pa.table(columns, schema=_IDLE)


def _ids_at(ids: Int64s, times: Int64s, place: Int64s, wanted: Int64s) -> pa.Array:
    """The ids in these places, NULL where another time than the wanted one stands there."""
    inside = np.clip(place, 0, len(ids) - 1)
    return pa.array(ids[inside], mask=(place != inside) | (times[inside] != wanted))
