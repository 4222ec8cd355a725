# One row per interval of the GPU span of a device in which it did nothing, with the cause.
# @schema main
# @scope  rank
# @needs  classified_kernel, device_state, event_kind, host_clock, launch, launch_origin, slice, step, trace, unrecorded_time
# @empty_unless device_state
# @column rank                BIGINT   Rank.
# @column device              BIGINT   Number of the device on its machine.
# @column ts                  BIGINT   Start, ns since the run's first event.
# @column dur                 BIGINT   Duration, ns.
# @column cause               VARCHAR  Why the device was idle. not recorded: perhaps it was busy: between the launches of the kernels around the gap, a kernel was launched whose record is missing or has an impossible time. sync: the launching thread, or the one that requested the launch, was blocked in a synchronizing call for at least half of the time from the start of the gap to the launch call of the next kernel. host: that launch call began after the start of the gap. dependency: the next kernel had been launched, but waited for an event of another stream: its host had requested that, or its stream spent at least half of the gap on it. launch: it had been launched, but had not started yet. unknown: its launch call is not in the trace or has an impossible time, there is no next kernel, or the clocks of host and GPU do not agree (ledger).
# @column step_id             BIGINT   Step in whose GPU time it lies (step.gpu_ts and gpu_dur); between steps, the step of the kernel that ended the gap, or else of the kernel before it. NULL if the steps of both kernels are unknown.
# @column previous_kernel_id  BIGINT   Kernel that ended when the gap began (kernel.id); NULL at the start of the GPU span.
# @column next_kernel_id      BIGINT   Kernel that ended the gap (kernel.id); NULL at the end of the GPU span.
# @column track_id            BIGINT   Track of the host thread that requested that kernel (slice.track_id): the launching one, or the one that requested the launch. NULL if unknown, or if the clocks of host and GPU do not agree.

"""Finds the kernels around each interval, and what the threads and streams before it waited for."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Self

import duckdb
import numpy as np
import pyarrow as pa

from traceql.analysis.intervals import Bools, Elapsed, Int64s, at, known, places
from traceql.analysis.parts_of_time import Part, parts_of_time
from traceql.analysis.step_spans import StepSpans
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import Columns, columns_of, in_order, rows_where

_SCHEMA = declared_schema(__file__)
_CAUSES = pa.array(["not recorded", "unknown", "sync", "host", "dependency", "launch"])
_NEVER = np.iinfo(np.int64).min  # a time or a thread that is unknown
_IDLE = """
    SELECT ts, dur
    FROM device_state
    WHERE
        rank = $rank AND device = $device
        AND ts >= $since AND ts >= $begin AND ts < $end
        AND NOT (compute OR comm OR copy)
    ORDER BY ts
"""
_KERNELS = """
    SELECT
        kernel.id, kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        kernel.stream,
        COALESCE(kernel.step_id, -1) AS step_id,
        COALESCE(kernel.launch_id, -1) AS launch_id,
        COALESCE(launch_origin.ts, $never) AS origin_ts,
        COALESCE(launch_origin.tid, $never) AS origin_tid,
        COALESCE(launch_origin.track_id, $never) AS origin_track_id
    FROM classified_kernel AS kernel
    LEFT JOIN launch_origin ON kernel.id = launch_origin.id
    WHERE
        kernel.rank = $rank AND kernel.device = $device
        AND kernel.ts >= $since AND kernel.ts <= $end
        AND kernel.ts + GREATEST(kernel.dur, 0) >= $begin
"""
_CALLS = """
    SELECT launch.id, COALESCE(launch.ts, $never) AS ts, COALESCE(launch.tid, $never) AS tid, COALESCE(slice.track_id, $never) AS track_id
    FROM launch
    INNER JOIN slice ON launch.id = slice.id
    WHERE launch.id >= $first AND launch.id <= $last
    ORDER BY launch.id
"""
# Calls of a thread are nested. Only the outermost one counts, because the time of a call inside it is
# part of its own.
_BLOCKING_CALLS = """
    SELECT rank, tid AS place, ts, GREATEST(dur, 0) AS dur
    FROM launch
    WHERE
        tid IS NOT NULL AND ts IS NOT NULL
        AND regexp_matches(name, '(Device|Stream|Event|Ctx)Synchronize|aclrtSynchronize(Device|Stream|Event)|^(cuda|hip)Memcpy(WithStream)?$|aclrtMemcpy$')
    QUALIFY COALESCE(ts >= MAX(ts + dur) OVER (
        PARTITION BY rank, tid ORDER BY ts, dur DESC, id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), TRUE)
    ORDER BY rank, place, ts
"""
_EVENT_WAITS = """
    SELECT rank, tid AS place, ts
    FROM launch
    WHERE tid IS NOT NULL AND ts IS NOT NULL AND name LIKE '%StreamWaitEvent%'
    ORDER BY rank, place, ts
"""
# Waits that the profiler itself put there, to capture memory values, have no type of task.
_DEVICE_WAITS = """
    WITH wait AS MATERIALIZED (  -- so that the arguments of other profilers are not read
        SELECT slice.rank, slice.ts, slice.dur, slice.args
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        INNER JOIN trace ON slice.rank = trace.rank
        WHERE
            trace.dialect = 'ascend'
            AND event_kind.kind = 'other'
            AND starts_with(slice.name, 'EVENT_WAIT')
            AND slice.dur > 0
    )
    SELECT
        rank,
        COALESCE(
            TRY_CAST(json_extract_string(args, '$."Physic Stream Id"') AS BIGINT),
            TRY_CAST(json_extract_string(args, '$."Stream Id"') AS BIGINT),
            -2  -- no stream of a kernel
        ) AS place,
        ts, dur
    FROM wait
    WHERE args LIKE '%"Task Type"%'
    ORDER BY rank, place, ts
"""

_STEP_SPANS = """
    SELECT rank, device, step_id, gpu_ts AS ts, gpu_ts + gpu_dur AS end_ts
    FROM step
    WHERE gpu_dur > 0
"""
_UNRECORDED = "SELECT rank, device AS place, ts, end_ts - ts AS dur FROM unrecorded_time ORDER BY rank, place, ts"
_OTHER_CLOCKS = "SELECT rank FROM host_clock WHERE NOT agrees"

_Place = tuple[int, int]  # a rank, and one of its threads, streams or devices


@dataclass(frozen=True)
class _Waits:
    """What may keep a device from running its next kernel.

    Attributes:
        blocking: when each thread was blocked in synchronizing calls.
        event: when each thread made a stream wait for an event, ns, sorted.
        device: when each stream of an Ascend device waited for an event.
        unrecorded: when kernels may have run on each device whose records are missing.
        other_clocks: the ranks on which the clocks of host and GPU do not agree.
    """

    blocking: Mapping[_Place, Elapsed]
    event: Mapping[_Place, Int64s]
    device: Mapping[_Place, Elapsed]
    unrecorded: Mapping[_Place, Elapsed]
    other_clocks: Set[int]

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection) -> Self:
        blocking, device, unrecorded = (
            {place: Elapsed.of(own["ts"], own["dur"]) for place, own in _by_place(con, sql)}
            for sql in (_BLOCKING_CALLS, _DEVICE_WAITS, _UNRECORDED)
        )
        event = {place: own["ts"] for place, own in _by_place(con, _EVENT_WAITS)}
        other_clocks = {rank for (rank,) in con.execute(_OTHER_CLOCKS).fetchall()}
        return cls(blocking, event, device, unrecorded, other_clocks)


@dataclass(frozen=True)
class _Interval:
    """The intervals of a part of the time of a rank, and the kernels around them.

    Attributes:
        ts: their starts, ns.
        end: their ends, ns.
        before: the place of the kernel with the highest id that ends at the start; -1 without one.
        after: the place of the kernel with the lowest id that begins at the end; -1 without one.
        launch_ts: when the launch call of that kernel began, or else its request, ns.
        tid: the thread that made the call.
        issuing_tid: the thread that requested the kernel, mostly the launching one.
        track_id: the track of that thread.
    """

    rank: int
    ts: Int64s
    end: Int64s
    before: Int64s
    after: Int64s
    launch_ts: Int64s
    tid: Int64s
    issuing_tid: Int64s
    track_id: Int64s


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    waits = _Waits.of(con)
    spans = StepSpans.of(con.sql(_STEP_SPANS))
    device = attrgetter("rank", "device")
    for _, parts in groupby(parts_of_time(con, "classified_kernel"), device):
        latest: Columns | None = None
        for part in parts:
            idle = columns_of(con.sql(_IDLE, params=part.parameters))
            kernels = columns_of(con.sql(_KERNELS, params={**part.parameters, "never": _NEVER}))
            if latest is not None:  # the kernel of each stream before those of this part
                others = rows_where(latest, ~np.isin(latest["id"], kernels["id"]))
                kernels = {name: np.append(others[name], kernels[name]) for name in kernels}
            kernels = in_order(kernels, "ts", "id")
            calls = _calls(con, kernels)
            intervals = _intervals(part, idle, kernels, calls)
            if part.rank in waits.other_clocks:  # it is unknown when the host did what
                never = np.full(len(intervals.ts), _NEVER)
                intervals = replace(intervals, launch_ts=never, track_id=never)
            cause = _causes(intervals, kernels, calls, waits)
            if missing := waits.unrecorded.get((part.rank, part.device)):
                cause = np.where(missing.passes(intervals.ts, intervals.end), 0, cause)
            yield _gaps(part, intervals, kernels, cause, spans)
            latest = _latest_of_streams(kernels, part.end)


def _by_place(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[tuple[_Place, Columns]]:
    """The rows of a query that sorts them by rank and place, for each of these."""
    columns = columns_of(con.sql(sql))
    rank, place = columns["rank"], columns["place"]
    changes = np.flatnonzero((rank[1:] != rank[:-1]) | (place[1:] != place[:-1])) + 1
    for begin, end in pairwise([0, *changes.tolist(), len(rank)]):
        if begin < end:
            own = {name: column[begin:end] for name, column in columns.items()}
            yield (int(rank[begin]), int(place[begin])), own


def _calls(con: duckdb.DuckDBPyConnection, kernels: Columns) -> Columns:
    """The calls that launched the kernels, and others between them, by their ids."""
    named = kernels["launch_id"][kernels["launch_id"] >= 0]
    first, last = (int(named.min()), int(named.max())) if len(named) else (0, -1)
    return columns_of(con.sql(_CALLS, params={"first": first, "last": last, "never": _NEVER}))


def _latest_of_streams(kernels: Columns, end: int) -> Columns:
    """The kernel of each stream that began last before the end."""
    begun = int(np.searchsorted(kernels["ts"], end))
    _, from_behind = np.unique(kernels["stream"][:begun][::-1], return_index=True)
    return {name: column[begun - 1 - from_behind] for name, column in kernels.items()}


def _intervals(part: Part, idle: Columns, kernels: Columns, calls: Columns) -> _Interval:
    """The intervals of a part.

    Args:
        kernels: those of the part, by their starts; of each stream also the one before them.
    """
    ts, end = idle["ts"], idle["ts"] + idle["dur"]
    after = places(kernels["ts"], end)
    call = places(calls["id"], at(kernels["launch_id"], after))
    called = {name: _at(calls[name], call) for name in ("ts", "tid", "track_id")}
    requested = {name: _at(kernels[f"origin_{name}"], after) for name in ("ts", "tid", "track_id")}
    return _Interval(
        part.rank,
        ts,
        end,
        _ending_at(kernels, ts),
        after,
        launch_ts=_first_known(called["ts"], requested["ts"]),
        tid=_first_known(called["tid"], requested["tid"]),
        issuing_tid=_first_known(requested["tid"], called["tid"]),
        track_id=_first_known(requested["track_id"], called["track_id"]),
    )


def _at(numbers: Int64s, place: Int64s) -> Int64s:
    """The number at each place; _NEVER at place -1."""
    return np.append(numbers, _NEVER)[place]


def _first_known(one: Int64s, other: Int64s) -> Int64s:
    return np.where(one != _NEVER, one, other)


def _ending_at(kernels: Columns, instants: Int64s) -> Int64s:
    """The place of the kernel with the highest id that ends at each instant; -1 without one."""
    ends = kernels["end_ts"]
    order = np.lexsort((kernels["id"], ends))
    last = np.searchsorted(ends[order], instants, side="right") - 1
    place = at(order, last)
    return np.where(at(ends, place) == instants, place, -1)


def _causes(one: _Interval, kernels: Columns, calls: Columns, waits: _Waits) -> Int64s:
    """The place in _CAUSES of the cause of each interval."""
    issued = np.minimum(one.launch_ts, one.end)
    is_late = one.launch_ts > one.ts
    blocked = _elapsed(waits.blocking, (one.rank, one.issuing_tid), (one.ts, issued), is_late)
    if any(rank == one.rank for rank, _ in waits.device):  # then they alone decide
        streams = at(kernels["stream"], one.after)
        waited = _elapsed(waits.device, (one.rank, streams), (one.ts, one.end), one.after >= 0)
        is_dependent = waited * 2 >= one.end - one.ts
    else:
        is_dependent = _awaits_event(one, kernels, calls, waits)
    is_blocked = is_late & (blocked * 2 >= issued - one.ts)
    causes = [is_blocked, is_late, is_dependent, one.launch_ts != _NEVER]
    return np.select(causes, range(2, len(_CAUSES)), 1)


def _elapsed(
    times: Mapping[_Place, Elapsed],
    place: tuple[int, Int64s],
    bounds: tuple[Int64s, Int64s],
    where: Bools,
) -> Int64s:
    """For each wanted interval, how much of it is in the times of its thread or stream, ns."""
    rank, numbers = place
    found = np.zeros(len(numbers), np.int64)
    for number, own in _each(numbers, where):
        if (rank, number) in times:
            found[own] = times[rank, number].between(*(bound[own] for bound in bounds))
    return found


def _awaits_event(one: _Interval, kernels: Columns, calls: Columns, waits: _Waits) -> Bools:
    """Whether the next kernel, launched before the interval, waits for an event.

    It runs on another stream than the kernel before, and the last wait for an event that the launching
    thread had issued for any stream came after the launch call of the previous kernel of its own.
    """
    stream = at(kernels["stream"], one.after)
    is_other = (one.before >= 0) & (one.after >= 0) & (at(kernels["stream"], one.before) != stream)
    wanted = is_other & (one.launch_ts <= one.ts) & (one.launch_ts != _NEVER)
    waited = np.full(len(wanted), _NEVER)
    for tid, own in _each(one.tid, wanted):
        issued = waits.event.get((one.rank, tid), np.empty(0, np.int64))
        place = np.searchsorted(issued, one.launch_ts[own], side="right") - 1
        waited[own] = _at(issued, place)
    earlier = np.full(len(wanted), _NEVER)
    for number, own in _each(stream, wanted):
        of_stream = kernels["stream"] == number
        place = np.searchsorted(kernels["ts"][of_stream], one.ts[own]) - 1
        launch_id = at(kernels["launch_id"][of_stream], place)
        earlier[own] = _at(calls["ts"], places(calls["id"], launch_id))
    return waited > earlier


def _each(numbers: Int64s, where: Bools) -> Iterator[tuple[int, Int64s]]:
    """Each number, and the places where it is wanted."""
    for number in np.unique(numbers[where]).tolist():
        yield number, np.flatnonzero(where & (numbers == number))


def _gaps(
    part: Part, one: _Interval, kernels: Columns, cause: Int64s, spans: StepSpans
) -> pa.Table:
    """The rows of a part."""
    step_id = at(kernels["step_id"], one.after)
    step_id = np.where(step_id >= 0, step_id, at(kernels["step_id"], one.before))
    columns = [
        np.full(len(one.ts), part.rank),
        np.full(len(one.ts), part.device),
        one.ts,
        one.end - one.ts,
        _CAUSES.take(pa.array(cause)),
        known(spans.at(part, one.ts, step_id)),
        known(at(kernels["id"], one.before)),
        known(at(kernels["id"], one.after)),
        known(one.track_id),
    ]
    return pa.table(columns, schema=_SCHEMA)
