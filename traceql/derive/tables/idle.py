# One row per interval in which a device did nothing, with what is known of the kernels before and after it.
# @kind   scratch
# @scope  rank
# @needs  classified_kernel, device_state, issuer, launch, slice
# @column rank                BIGINT   Rank.
# @column device              BIGINT   Number of the device on its machine.
# @column ts                  BIGINT   Start, ns since the run's first event.
# @column dur                 BIGINT   Duration, ns.
# @column previous_kernel_id  BIGINT   Kernel that ended when the interval began; NULL at the start of the GPU span.
# @column next_kernel_id      BIGINT   Kernel that ended the interval; NULL at the end of the GPU span.
# @column step_id             BIGINT   Step of the kernel that ended the interval, or else of the kernel before it.
# @column stream              BIGINT   Stream of the next kernel.
# @column launch_ts           BIGINT   Start of the call that launched the next kernel, or else of what asked for it, ns; NULL if neither is in the trace.
# @column tid                 BIGINT   Thread that made this call.
# @column issuing_tid         BIGINT   Thread that had asked for the kernel, mostly the launching one.
# @column track_id            BIGINT   Track of that thread (slice.track_id).
# @column other_stream        BOOLEAN  Whether the next kernel runs on another stream than the previous one; NULL if one of them is missing.
# @column earlier_launch_ts   BIGINT   Start of the call that launched the last kernel before the interval on the stream of the next one, ns; NULL if it is unknown, or if other_stream is not true.

"""Finds the kernels that end where an interval begins, and that begin where it ends."""

from collections.abc import Iterator, Mapping
from itertools import groupby

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.parts_of_time import Part, parts_of_time
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
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
        kernel.id,
        kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        kernel.stream,
        kernel.step_id,
        launch.ts AS call_ts,
        COALESCE(launch.ts, issuer.ts) AS launch_ts,
        COALESCE(launch.tid, issuer.tid) AS tid,
        COALESCE(issuer.tid, launch.tid) AS issuing_tid,
        COALESCE(issuer.track_id, launch.track_id) AS track_id
    FROM classified_kernel AS kernel
    LEFT JOIN (
        SELECT launch.id, launch.ts, launch.tid, slice.track_id
        FROM launch
        INNER JOIN slice USING (id)
        WHERE launch.rank = $rank
    ) AS launch ON kernel.launch_id = launch.id
    LEFT JOIN issuer ON kernel.id = issuer.id
    WHERE
        kernel.rank = $rank AND kernel.device = $device
        AND kernel.ts >= $since AND kernel.ts <= $end
        AND kernel.ts + GREATEST(kernel.dur, 0) >= $begin
    ORDER BY kernel.ts, kernel.id
"""
_PLACE = ("rank", "device")
_OF_NEXT = ("stream", "launch_ts", "tid", "issuing_tid", "track_id")
_NEVER = np.iinfo(np.int64).min

Int64s = npt.NDArray[np.int64]


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    for device, parts in groupby(parts_of_time(con, "classified_kernel"), _device):
        earlier: dict[int, int] = {}
        for part in parts:
            idle, kernels = (
                con.sql(sql, params=part.parameters).to_arrow_table().combine_chunks()
                for sql in (_IDLE, _KERNELS)
            )
            yield _bounded(device, idle, kernels, earlier)
            earlier |= _last_calls(kernels, part.end)


def _device(part: Part) -> tuple[int, int]:
    return part.rank, part.device


def _bounded(
    device: tuple[int, int], idle: pa.Table, kernels: pa.Table, earlier: Mapping[int, int]
) -> pa.Table:
    """The rows of a part of a device's time.

    Args:
        kernels: those of the part, by their starts.
        earlier: when the last kernel of a stream was launched, of those that are not in `kernels`.
    """
    ts, dur = (idle[name].to_numpy() for name in ("ts", "dur"))
    before = kernels.take(_ending_at(kernels, ts))
    after = kernels.take(_beginning_at(kernels, ts + dur))
    other_stream = pc.not_equal(before["stream"], after["stream"])
    columns = {
        **{name: np.full(len(ts), number) for name, number in zip(_PLACE, device, strict=True)},
        "ts": ts,
        "dur": dur,
        "previous_kernel_id": before["id"],
        "next_kernel_id": after["id"],
        "step_id": pc.coalesce(after["step_id"], before["step_id"]),
        **{name: after[name] for name in _OF_NEXT},
        "other_stream": other_stream,
        "earlier_launch_ts": _earlier_calls(
            kernels, ts, after["stream"], other_stream.fill_null(False), earlier
        ),
    }
    return pa.table(columns, schema=_SCHEMA)


def _ending_at(kernels: pa.Table, instants: Int64s) -> pa.Array:
    """The place of the kernel with the highest id that ends at each instant, or NULL."""
    ids, ends = (kernels[name].to_numpy() for name in ("id", "end_ts"))
    order = np.lexsort((ids, ends))
    place = np.searchsorted(ends[order], instants, side="right") - 1
    return _where(order, place, ends, instants)


def _beginning_at(kernels: pa.Table, instants: Int64s) -> pa.Array:
    """The place of the kernel with the lowest id that begins at each instant, or NULL."""
    starts = kernels["ts"].to_numpy()
    place = np.searchsorted(starts, instants)
    return _where(np.arange(len(starts)), place, starts, instants)


def _where(order: Int64s, place: Int64s, edges: Int64s, instants: Int64s) -> pa.Array:
    """The kernels at these places of an order whose edge is the instant; NULL for other places."""
    inside = (place >= 0) & (place < len(order))
    found = np.zeros(len(place), np.int64)
    found[inside] = order[place[inside]]
    inside[inside] = edges[found[inside]] == instants[inside]
    return pa.array(found, mask=~inside)


def _earlier_calls(
    kernels: pa.Table,
    instants: Int64s,
    stream: pa.ChunkedArray,
    wanted: pa.ChunkedArray,
    earlier: Mapping[int, int],
) -> pa.Array:
    """For each wanted instant, when the last kernel of a stream that began before it was launched.

    It is NULL if that is unknown, and where it is not wanted.
    """
    found = np.full(len(instants), _NEVER)
    asked = np.flatnonzero(wanted.to_numpy())
    of_stream = stream.take(asked).to_numpy()
    for number, calls, starts in _by_stream(kernels, np.unique(of_stream)):
        own = asked[of_stream == number]
        place = np.searchsorted(starts, instants[own])
        known = np.append(earlier.get(number, _NEVER), calls)
        found[own] = known[place]
    return pa.array(found, mask=found == _NEVER)


def _last_calls(kernels: pa.Table, end: int) -> dict[int, int]:
    """When the last kernel of each stream that began before the end was launched."""
    streams = kernels["stream"].unique().to_numpy()
    return {
        number: int(calls[np.searchsorted(starts, end) - 1])
        for number, calls, starts in _by_stream(kernels, streams)
        if len(starts) and starts[0] < end
    }


def _by_stream(kernels: pa.Table, streams: Int64s) -> Iterator[tuple[int, Int64s, Int64s]]:
    """For each of these streams, the launch calls (or `_NEVER`) and the starts of its kernels."""
    stream, starts = (kernels[name].to_numpy() for name in ("stream", "ts"))
    calls = kernels["call_ts"].fill_null(_NEVER).to_numpy()
    for number in streams.tolist():
        own = stream == number
        yield number, calls[own], starts[own]
