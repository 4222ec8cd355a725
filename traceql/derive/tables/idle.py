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

from collections.abc import Iterator
from itertools import groupby

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.parts_of_time import Part, parts_of_time
from traceql.places import Int64s, at, known, places
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
    WITH chosen AS MATERIALIZED (
        FROM classified_kernel
        WHERE
            rank = $rank AND device = $device
            AND ts >= $since AND ts <= $end
            AND ts + GREATEST(dur, 0) >= $begin
    ),
    call AS (
        SELECT launch.id, launch.ts, launch.tid, slice.track_id
        FROM (SELECT DISTINCT launch_id FROM chosen) AS named
        INNER JOIN launch ON named.launch_id = launch.id
        INNER JOIN slice ON launch.id = slice.id
    )
    SELECT
        kernel.id,
        kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        kernel.stream,
        kernel.step_id,
        call.ts AS call_ts,
        COALESCE(call.ts, issuer.ts) AS launch_ts,
        COALESCE(call.tid, issuer.tid) AS tid,
        COALESCE(issuer.tid, call.tid) AS issuing_tid,
        COALESCE(issuer.track_id, call.track_id) AS track_id
    FROM chosen AS kernel
    LEFT JOIN call ON kernel.launch_id = call.id
    LEFT JOIN issuer ON kernel.id = issuer.id
"""
_OF_NEXT = ("stream", "launch_ts", "tid", "issuing_tid", "track_id")
_NEVER = np.iinfo(np.int64).min


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    for _, parts in groupby(parts_of_time(con, "classified_kernel"), _device):
        latest: pa.Table | None = None
        for part in parts:
            idle, kernels = (
                con.sql(sql, params=part.parameters).to_arrow_table() for sql in (_IDLE, _KERNELS)
            )
            if latest is not None:  # the kernel of each stream before those of this part
                others = ~np.isin(latest["id"].to_numpy(), kernels["id"].to_numpy())
                kernels = pa.concat_tables([latest.filter(pa.array(others)), kernels])
            kernels = _by_start(kernels)
            yield _bounded(part, idle.combine_chunks(), kernels)
            latest = _latest_of_streams(kernels, part.end)


def _device(part: Part) -> tuple[int, int]:
    return part.rank, part.device


def _by_start(kernels: pa.Table) -> pa.Table:
    ids, ts = (kernels[name].to_numpy() for name in ("id", "ts"))
    return kernels.combine_chunks().take(pa.array(np.lexsort((ids, ts))))


def _latest_of_streams(kernels: pa.Table, end: int) -> pa.Table:
    """The kernel of each stream that began last before the end."""
    begun = kernels.slice(0, int(np.searchsorted(kernels["ts"].to_numpy(), end)))
    _, from_behind = np.unique(begun["stream"].to_numpy()[::-1], return_index=True)
    return begun.take(pa.array(len(begun) - 1 - from_behind))


def _bounded(part: Part, idle: pa.Table, kernels: pa.Table) -> pa.Table:
    """The rows of a part.

    Args:
        kernels: those of the part, by their starts; of each stream also the one before them.
    """
    ts, dur = (idle[name].to_numpy() for name in ("ts", "dur"))
    before = kernels.take(_ending_at(kernels, ts))
    after = kernels.take(_beginning_at(kernels, ts + dur))
    other_stream = pc.not_equal(before["stream"], after["stream"])
    columns = {
        "rank": np.full(len(ts), part.rank),
        "device": np.full(len(ts), part.device),
        "ts": ts,
        "dur": dur,
        "previous_kernel_id": before["id"],
        "next_kernel_id": after["id"],
        "step_id": pc.coalesce(after["step_id"], before["step_id"]),
        **{name: after[name] for name in _OF_NEXT},
        "other_stream": other_stream,
        "earlier_launch_ts": _earlier_calls(
            kernels, ts, after["stream"], other_stream.fill_null(False)
        ),
    }
    return pa.table(columns, schema=_SCHEMA)


def _ending_at(kernels: pa.Table, instants: Int64s) -> pa.Array:
    """The place of the kernel with the highest id that ends at each instant, or NULL."""
    ids, ends = (kernels[name].to_numpy() for name in ("id", "end_ts"))
    order = np.lexsort((ids, ends))
    last = np.searchsorted(ends[order], instants, side="right") - 1
    place = at(order, last)
    return known(place, where=at(ends, place) == instants)


def _beginning_at(kernels: pa.Table, instants: Int64s) -> pa.Array:
    """The place of the kernel with the lowest id that begins at each instant, or NULL."""
    return known(places(kernels["ts"].to_numpy(), instants))


def _earlier_calls(
    kernels: pa.Table, instants: Int64s, streams: pa.ChunkedArray, wanted: pa.ChunkedArray
) -> pa.Array:
    """For each wanted instant, when the last kernel of a stream that began before it was launched.

    It is NULL if that is unknown, and where it is not wanted.
    """
    stream, starts = (kernels[name].to_numpy() for name in ("stream", "ts"))
    calls = kernels["call_ts"].fill_null(_NEVER).to_numpy()
    found = np.full(len(instants), _NEVER)
    asked = np.flatnonzero(wanted.to_numpy())
    of_stream = streams.take(pa.array(asked)).to_numpy()
    for number in np.unique(of_stream).tolist():
        own, searched = stream == number, asked[of_stream == number]
        place = np.searchsorted(starts[own], instants[searched])
        found[searched] = np.append(_NEVER, calls[own])[place]
    return pa.array(found, mask=found == _NEVER)
