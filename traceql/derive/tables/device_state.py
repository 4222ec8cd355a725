# One row per interval in which a device's activity does not change.
#
# The intervals of a device cover its rank's GPU span without overlap.
# @scope  rank
# @needs  classified_kernel, work_class
# @column rank     BIGINT   Rank.
# @column device   BIGINT   Device number on its host.
# @column ts       BIGINT   Start, ns since trace.base_time_ns.
# @column dur      BIGINT   Duration, ns.
# @column compute  BOOLEAN  A kernel runs that neither communicates nor copies.
# @column comm     BOOLEAN  A kernel of category collective runs.
# @column copy     BOOLEAN  A memory copy or memory set runs (category memcpy or memset).

"""Counts what runs between any two consecutive starts and ends of activities."""

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.table_head import declared_schema

Int64s = npt.NDArray[np.int64]

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


@dataclass(frozen=True)
class _States:
    """Intervals in which a device's activity does not change.

    Attributes:
        ts: where each begins, and at the end where the last ends.
        running: for each of _WHAT, whether it runs.
    """

    ts: Int64s
    running: dict[str, npt.NDArray[np.bool_]]


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    kernels = columns_of(con.sql(_KERNELS, params={"what": list(_WHAT)}))
    states = [_SCHEMA.empty_table()]
    for rank in np.unique(kernels["rank"]).tolist():
        of_rank = rows_where(kernels, kernels["rank"] == rank)
        # A rank's window is one for all its devices.
        span = int(of_rank["ts"].min()), int(of_rank["end_ts"].max())
        for device in np.unique(of_rank["device"]).tolist():
            of_device = rows_where(of_rank, of_rank["device"] == device)
            states.append(_state_table(rank, device, _states(of_device, span)))
    return pa.concat_tables(states)


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
    return pa.table([*places, states.ts[:-1], dur, *states.running.values()], schema=_SCHEMA)
