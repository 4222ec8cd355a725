"""Reads a native Perfetto trace: the trace processor parses it, queries fetch the tables."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from traceql.engine import TraceProcessor, arrow_table, open_trace_processor
from traceql.errors import EngineError, LossyLoad
from traceql.reader.activities import activities_among, activity_table
from traceql.reader.arguments import Texts, decoded, int64_column
from traceql.reader.lost_data import raise_on_error_stats
from traceql.reader.perfetto.packets import require_whole_packets
from traceql.reader.remarks import Remark, remark_table
from traceql.reader.tables import (
    COUNT,
    FLOW,
    INSTANT,
    NAME,
    SLICE,
    TRACK,
    TraceTables,
)

_SLICES = """
    SELECT
        slice.id, slice.ts, slice.dur, slice.category, slice.name, slice.parent_id, slice.depth,
        slice.arg_set_id, slice.track_id, trace_end() AS end_ts
    FROM slice
    ORDER BY slice.id
"""
_TRACKS = """
    SELECT
        track.id, process.pid, thread.tid, process.name AS process_name,
        COALESCE(thread.name, track.name) AS thread_name
    FROM track
    LEFT JOIN thread_track ON thread_track.id = track.id
    LEFT JOIN thread USING (utid)
    LEFT JOIN process_track ON process_track.id = track.id
    LEFT JOIN process ON process.upid = COALESCE(thread.upid, process_track.upid)
    ORDER BY track.id
"""
_FLOWS = "SELECT slice_out, slice_in FROM flow"
_ARGS = """
    SELECT args.arg_set_id, key, value_type, int_value, real_value, string_value
    FROM args JOIN (SELECT DISTINCT arg_set_id FROM slice) USING (arg_set_id)
    ORDER BY args.id
"""
_COUNTS = """
    SELECT
        'slice' AS phase,
        COALESCE(category, '') AS cat,
        COUNT(*) AS events,
        SUM(IIF(dur < 0, MAX(trace_end() - ts, 0), dur)) AS dur
    FROM slice
    GROUP BY category
"""
_COUNTERS = "SELECT COUNT(*) AS n FROM counter"
_PREFIX = re.compile(r"^(?:debug|args)\.")
_POSITIONS = re.compile(r"((?:\[\d+\])+)$")


def read_native(path: Path, *, trace_processor: Path | None) -> TraceTables:
    """The tables of a native Perfetto trace; `index` is the trace processor's slice id."""
    require_whole_packets(path)
    try:
        with open_trace_processor(path, trace_processor=trace_processor) as tp:
            raise_on_error_stats(tp)
            tables = _tables(tp)
    except (EngineError, LossyLoad) as error:
        raise type(error)(f"{path}: {error}") from None
    return TraceTables(tables)


def _tables(tp: TraceProcessor) -> dict[str, pa.Table]:
    found, tracks = arrow_table(tp, _SLICES), arrow_table(tp, _TRACKS)
    slices, activities, unfinished = _slice_tables(found, tracks, _args_by_set(tp))
    counters = arrow_table(tp, _COUNTERS)["n"][0].as_py()
    return {
        "slice": slices,
        "activity": activities,
        "flow": pa.table([_int64(c) for c in arrow_table(tp, _FLOWS).columns], schema=FLOW),
        "instant": INSTANT.empty_table(),
        "track": _track_table(tracks),
        "count": arrow_table(tp, _COUNTS, schema=COUNT),
        "remark": remark_table(_remarks(unfinished, counters, slices.num_rows)),
    }


def _slice_tables(
    found: pa.Table, tracks: pa.Table, args_by_set: Mapping[int | None, bytes]
) -> tuple[pa.Table, pa.Table, int]:
    """Slices, activities, and the number of slices without an end.

    A slice without an end lasts until the end of the trace.
    """
    dur, ts = _int64(found["dur"]), _int64(found["ts"])
    unfinished = pc.less(dur, 0)
    to_the_end = pc.max_element_wise(pc.subtract(_int64(found["end_ts"]), ts), 0)
    dur = pc.if_else(unfinished, to_the_end, dur)
    row_of_track = {track: row for row, track in enumerate(tracks["id"].to_pylist())}
    rows = pa.array([row_of_track[t] for t in found["track_id"].to_pylist()], pa.int64())
    args = Texts()
    arguments = decoded(
        *args.add([args_by_set.get(s, b"") for s in found["arg_set_id"].to_pylist()])
    )
    cats = _name(found["category"])
    columns = [
        _int64(found["id"]),
        cats,
        _name(found["name"]),
        ts,
        dur,
        _int64(tracks["pid"]).take(rows),
        _int64(tracks["tid"]).take(rows),
        rows,
        _int64(found["parent_id"]),
        _int64(found["depth"]),
        int64_column([a.external_id for a in arguments]),
        int64_column([a.correlation for a in arguments]),
        args.json_column(),
    ]
    on_gpu = activities_among(cats.dictionary.to_pylist(), cats.indices.fill_null(-1).to_numpy())
    activities = activity_table(on_gpu, arguments)
    return pa.table(columns, schema=SLICE), activities, pc.sum(unfinished).as_py() or 0


def _args_by_set(tp: TraceProcessor) -> dict[int | None, bytes]:
    """The JSON text of each set of arguments, with lists restored.

    The trace processor flattens lists: `grid[0]`, `grid[1]`, ...
    """
    sets: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for row in arrow_table(tp, _ARGS).to_pylist():
        _put(sets[row["arg_set_id"]], _PREFIX.sub("", row["key"]), _argument_value(row))
    return {arg_set: json.dumps(args).encode() for arg_set, args in sets.items()}


def _put(args: dict[str, Any], key: str, value: Any) -> None:
    positions = _POSITIONS.search(key)
    if positions is None:
        args[key] = value
        return
    place: Any = args.setdefault(key[: positions.start()], [])
    if not isinstance(place, list):
        args[key] = value
        return
    *outer, last = (int(n) for n in re.findall(r"\d+", positions[1]))
    for position in outer:
        place.extend([] for _ in range(position + 1 - len(place)))
        place = place[position]
    place.extend([None] * (last + 1 - len(place)))
    place[last] = value


def _argument_value(row: dict[str, Any]) -> Any:
    match row["value_type"]:
        case "string" | "json":
            return row["string_value"]
        case "real":
            return row["real_value"]
        case "bool":
            return bool(row["int_value"])
        case _:
            return row["int_value"]


def _int64(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.int64())


def _name(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.large_string()).dictionary_encode().cast(NAME)


def _track_table(tracks: pa.Table) -> pa.Table:
    absent = pa.nulls(tracks.num_rows)
    columns = [
        pa.array(range(tracks.num_rows), pa.int64()),
        *(
            tracks[name].combine_chunks().cast(pa.large_string())
            for name in ("pid", "tid", "process_name", "thread_name")
        ),
        absent.cast(pa.large_string()),
        absent.cast(pa.int64()),
        absent.cast(pa.int64()),
    ]
    return pa.table(columns, schema=TRACK)


def _remarks(unfinished: int, counters: int, slices: int) -> list[Remark]:
    errors = "errors reported by the trace processor"
    endless = "slices that never end, which last until the end of the trace; all slices"
    samples = "counter samples in the file, which are not loaded"
    return [
        Remark("trace processor errors", 0, 0, True, errors),
        Remark("slices without an end", unfinished, slices, None, endless),
        Remark("counters not loaded", counters, counters, None, samples),
    ]
