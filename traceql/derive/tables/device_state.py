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
    """The intervals of one device in which its activity does not change.

    Attributes:
        ts: the start of each interval, followed by the end of the last one, ns.
        running: for each kind in _WHAT, whether such an activity runs in each interval.
    """

    ts: Int64s
    running: dict[str, npt.NDArray[np.bool_]]


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    kernels = columns_of(con.sql(_KERNELS, params={"what": list(_WHAT)}))
    states = [_SCHEMA.empty_table()]
    for rank in np.unique(kernels["rank"]).tolist():
        of_rank = rows_where(kernels, kernels["rank"] == rank)
        # All devices of a rank share one window.
        span = int(of_rank["ts"].min()), int(of_rank["end_ts"].max())
        for device in np.unique(of_rank["device"]).tolist():
            of_device = rows_where(of_rank, of_rank["device"] == device)
            states.append(_state_table(rank, device, _states(of_device, span)))
    return pa.concat_tables(states)


def _states(kernels: Columns, span: tuple[int, int]) -> _States:
    """Finds the intervals of one device by counting starts and ends; `span` is its window."""
    ts = np.concatenate((kernels["ts"], kernels["end_ts"], span))
    order = np.argsort(ts, kind="stable")
    # Of several edges at one instant, only the last one has an interval after it. Its running sum
    # includes the others.
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
