# One row per interval of a device: the part that its time counts for, and the step it belongs to.
#
# The intervals of a device cover its GPU span, from its first start to its last end, without overlap,
# so that each nanosecond counts once. If several activities run, computing comes first, then communication, then copies.
# Waiting is time in which communication kernels run and all of them wait for another rank.
# @scope  run
# @needs  collective, gap, kernel, step
# @empty_unless kernel
# @column rank           BIGINT   Rank.
# @column device         BIGINT   Number of the device on its machine.
# @column ts             BIGINT   Start, ns since the run's first event.
# @column dur            BIGINT   Duration, ns.
# @column part           VARCHAR  computing (a compute kernel runs), exposed_transfer (a collective transfers data), exposed_wait (collectives wait for a late rank), exposed_unmatched (collectives run that were not matched on all their ranks: whether they wait is unknown), exposed_copy (only memory copies or sets run) or idle (nothing runs).
# @column cause          VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
# @column is_overlapped  BOOLEAN  Whether a compute kernel and a collective run: overlapped communication, part computing.
# @column step_id        BIGINT   Step in whose GPU time it lies (step.gpu_ts and gpu_dur), or else the step of the kernel that began last; of idle time, gap.step_id. NULL if the step of that kernel is unknown.
# @column phase          VARCHAR  Phase of that step; NULL if it is unknown.
# @column kernel_id      BIGINT   Kernel that the time is credited to (kernel.id): of the kernels that run and decide the part, the one that began last; of operations that transfer data, the one that began to do so last. NULL in idle time.

"""Counts activities, where a matched operation first waits and then transfers."""

from collections.abc import Iterator, Mapping

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.analysis.intervals import Int64s, Running, at, known, last_running, places
from traceql.analysis.parts_of_time import Part, parts_of_time
from traceql.analysis.step_spans import StepSpans
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import Columns, columns_of, in_order, rows_where

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
_IDLE = len(_PARTS)
_COMM = ("transfer", "unmatched", "wait")
_KERNELS = """
    SELECT
        kernel.id, kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        -- 0 is a compute kernel, 1 a collective, 2 a copy or memory set.
        CASE
            WHEN kernel.category = 'collective' THEN 1
            WHEN kernel.category IN ('memcpy', 'memset') THEN 2
            ELSE 0
        END AS class,
        COALESCE(kernel.step_id, -1) AS step_id,
        collective.wait_ns IS NOT NULL AS is_matched,
        kernel.ts + COALESCE(collective.wait_ns, 0) AS arrival_ts
    FROM kernel
    LEFT JOIN collective ON kernel.id = collective.kernel_id
    WHERE
        kernel.rank = $rank AND kernel.device = $device
        AND kernel.ts >= $since AND kernel.ts < $end
        AND kernel.ts + GREATEST(kernel.dur, 0) >= $begin
"""
_GAPS = """
    SELECT ts, list_position($causes, cause) - 1 AS cause, COALESCE(step_id, -1) AS step_id
    FROM gap
    WHERE
        rank = $rank AND device = $device
        AND ts >= $since AND ts >= $begin AND ts < $end
"""
_CAUSES = "SELECT DISTINCT cause FROM gap ORDER BY cause"
_STEPS = "SELECT step_id, phase FROM step ORDER BY step_id"
_STEP_SPANS = """
    SELECT rank, device, step_id, gpu_ts AS ts, gpu_ts + gpu_dur AS end_ts
    FROM step
    WHERE gpu_dur > 0
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    causes = [cause for (cause,) in con.execute(_CAUSES).fetchall()]
    steps = con.sql(_STEPS).to_arrow_table()
    spans = StepSpans.of(con.sql(_STEP_SPANS))
    for part in parts_of_time(con, "kernel"):
        in_part = part.parameters
        kernels = con.sql(_KERNELS, params=in_part)
        gaps = con.sql(_GAPS, params={"causes": causes, **in_part})
        yield _intervals(
            part,
            in_order(columns_of(kernels), "ts", "id"),
            in_order(columns_of(gaps), "ts"),
            pa.array(causes, pa.string()),
            steps,
            spans,
        )


def _intervals(
    part: Part,
    kernels: Columns,
    gaps: Columns,
    causes: pa.Array,
    steps: pa.Table,
    spans: StepSpans,
) -> pa.Table:
    """The rows of a part; its kernels and gaps are in the order of their starts."""
    activities = _activities(kernels)
    running = Running.of(
        {what: (own["ts"], own["end_ts"]) for what, own in activities.items()},
        span=(part.begin, part.end),
    )
    kind = np.select(
        list(running.kinds.values()), np.arange(_IDLE, dtype=np.int8)[:, None], np.int8(_IDLE)
    )
    is_idle, is_busy = np.flatnonzero(kind == _IDLE), np.flatnonzero(kind != _IDLE)
    comm = np.logical_or.reduce([running.kinds[comm] for comm in _COMM])
    gap = np.full(len(kind), -1)
    gap[is_idle] = places(gaps["ts"], running.ts[is_idle])
    step_id = at(gaps["step_id"], gap)
    begun_last = _begun_last(kernels, running.ts[is_busy])
    step_id[is_busy] = spans.at(part, running.ts[is_busy], begun_last)
    step = places(steps["step_id"].to_numpy(), step_id)
    columns = [
        np.full(len(kind), part.rank),
        np.full(len(kind), part.device),
        running.ts,
        running.dur,
        pa.array([*_PARTS.values(), "idle"]).take(pa.array(kind)),
        causes.take(known(at(gaps["cause"], gap))),
        comm & running.kinds["compute"],
        known(step_id, where=step >= 0),
        steps["phase"].combine_chunks().take(known(step)),
        _credited(activities, running.ts, kind),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _activities(kernels: Columns) -> Mapping[str, Columns]:
    """The activities of each kind, in the order of their starts."""
    is_matched, arrival_ts = kernels["is_matched"], kernels["arrival_ts"]
    own = {name: kernels[name] for name in ("id", "ts", "end_ts")}
    others = {
        what: rows_where(own, ~is_matched & (kernels["class"] == number))
        for number, what in enumerate(("compute", "unmatched", "copy"))
    }
    transfers = in_order(rows_where({**own, "ts": arrival_ts}, is_matched), "ts", "id")
    waits = rows_where({**own, "end_ts": arrival_ts}, is_matched)
    found = {**others, "transfer": transfers, "wait": waits}
    return {what: found[what] for what in _PARTS}


def _begun_last(kernels: Columns, instants: Int64s) -> Int64s:
    """The step of the kernel that began last at each instant or before; -1 without one."""
    place = np.searchsorted(kernels["ts"], instants, side="right") - 1
    return at(kernels["step_id"], place)


def _credited(
    activities: Mapping[str, Columns], instants: Int64s, kind: npt.NDArray[np.int8]
) -> pa.Array:
    """Of the activities of a kind that run at each instant the one that began last.

    Args:
        kind: the place in `activities` of the kind that decides the part at each instant; a higher
            number if nothing runs.
    """
    found = np.zeros(len(instants), np.int64)
    for number, own in enumerate(activities.values()):
        wanted = np.flatnonzero(kind == number)
        found[wanted] = own["id"][last_running(own["ts"], own["end_ts"], instants[wanted])]
    return pa.array(found, mask=kind == _IDLE)
