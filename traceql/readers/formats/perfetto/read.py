"""Reads a native Perfetto trace with queries to the trace processor."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import EngineError, LossyLoad, TraceCorrupt
from traceql.readers.arguments import Texts, activity_table, int64_column
from traceql.readers.device_activities import DeviceActivities
from traceql.readers.formats.kineto.gathering import Gathered
from traceql.readers.formats.kineto.kineto_json import Repairs
from traceql.readers.formats.kineto.read import events_in, tables_of
from traceql.readers.formats.perfetto.dialects import TraceDialect, dialect_of
from traceql.readers.formats.perfetto.pytorch import events_of_recorder
from traceql.readers.formats.perfetto.track_events import TrackEvents, count_table, track_events
from traceql.readers.lost_data import Losses, listed, losses
from traceql.readers.tables import (
    COUNTER,
    FLOW,
    INSTANT,
    NAME,
    SLICE,
    TRACK,
    Remark,
    TraceTables,
    remark_table,
)
from traceql.readers.timeline import COMPLETE, require_total_fits
from traceql.readers.trace_processor import Engine, arrow_table, open_engine
from traceql.readers.tracks import Track
from traceql.readers.unpacked import REMAKE, pieces

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
_COUNTERS = "SELECT COUNT(*) AS n FROM counter"
_UNMATCHED = (
    "ends of slices whose beginning is not in the file; all ends. "
    "Where a slice began earlier on the same track, such an end may have cut another slice short"
)
_CATEGORIES = (
    "events of PyTorch's native recorder, which writes no categories: they follow from arguments "
    "and names; all events"
)
_RENDER_STAGES = (
    "render stages of a GPU that are loaded as activities; all of them in the file. Versions of "
    "PyTorch write kernels so: they are rows of slice only, so export the trace as JSON instead"
)
_PIECE_BYTES = 4 << 20
_PREFIX = re.compile(r"^(?:debug|args)\.")
_POSITIONS = re.compile(r"((?:\[[0-9]+\])+)$")
_MOST_GAPS = 100  # before an item of a list, because a short key must not create a huge list


def read_native(path: Path, *, trace_processor: Path | None) -> TraceTables:
    """The tables of a native Perfetto trace; `index` is the trace processor's slice id.

    The packets are counted too, so that the ledger reports slices that cannot be read.

    Raises:
        TraceCorrupt: the file is empty or damaged, or ends within a packet.
        LossyLoad: no slice can be read, or what was lost cannot be counted.
    """
    try:
        in_file = track_events(pieces(path, _PIECE_BYTES))
        if in_file.may_be_of_pytorch and (found := _of_recorder(path, trace_processor)):
            return found
        with open_engine(path, trace_processor=trace_processor) as tp:
            dialect = dialect_of(in_file.slices)
            tables = _tables(tp, in_file, losses(tp), dialect)
            return TraceTables(tables, dialect=dialect.name)
    except (EngineError, LossyLoad, TraceCorrupt) as error:
        raise type(error)(f"{path}: {error}") from None


def _of_recorder(path: Path, trace_processor: Path | None) -> TraceTables | None:
    """The tables of a trace of PyTorch's own recorder, as those of its JSON; None for others."""
    events = events_of_recorder(pieces(path, _PIECE_BYTES))
    if events is None:
        return None
    slices = sum(event.ph == COMPLETE for event in events)
    check = Remark("categories from arguments", slices, slices, None, _CATEGORIES)
    kineto = events_in(Gathered([events]), {}, Repairs())
    return tables_of(kineto, trace_processor=trace_processor, more_checks=[check])


def _tables(
    tp: Engine, in_file: TrackEvents, lost: Losses, dialect: TraceDialect
) -> dict[str, pa.Table]:
    found, tracks = arrow_table(tp, _SLICES), arrow_table(tp, _TRACKS)
    _require_countable(found.num_rows, in_file, lost)
    slices, activities, unfinished = _slice_tables(found, tracks, _args_by_set(tp), dialect)
    counters = arrow_table(tp, _COUNTERS)["n"][0].as_py()
    devices = DeviceActivities(_named_tracks(tracks))
    if dialect.name is None:
        activities = devices.found(activities, slices)
    return {
        "slice": slices,
        "activity": activities,
        "flow": pa.table([_int64(c) for c in arrow_table(tp, _FLOWS).columns], schema=FLOW),
        "instant": INSTANT.empty_table(),
        "counter": COUNTER.empty_table(),
        "track": _track_table(tracks),
        "count": count_table(in_file, slices["cat"]),
        "load_check": remark_table(
            [
                *_remarks(in_file, unfinished, counters, slices.num_rows, lost),
                *dialect.remarks(slices, activities),
                *devices.remarks(),
            ]
        ),
    }


def _require_countable(slices: int, in_file: TrackEvents, lost: Losses) -> None:
    """Raises LossyLoad if the trace lost everything, or an unknown amount."""
    expected = in_file.slices.total()
    if expected and not slices:
        raise LossyLoad(
            f"none of its {expected} events can be read; its first packets may be missing; {REMAKE}"
        )
    if lost.lost and in_file.may_have_others:
        what = f"an unknown part of it cannot be read ({listed(lost.lost)})"
        raise LossyLoad(f"{what}; {REMAKE}")


def _slice_tables(
    found: pa.Table,
    tracks: pa.Table,
    args_by_set: Mapping[int | None, bytes],
    dialect: TraceDialect,
) -> tuple[pa.Table, pa.Table, int]:
    """Slices, activities, and the number of slices without an end, which last until the end."""
    dur, ts = _int64(found["dur"]), _int64(found["ts"])
    unfinished = pc.less(dur, 0)
    to_the_end = pc.max_element_wise(pc.subtract(_int64(found["end_ts"]), ts), 0)
    dur = pc.if_else(unfinished, to_the_end, dur)
    require_total_fits(dur.to_numpy())
    row_of_track = {track: row for row, track in enumerate(tracks["id"].to_pylist())}
    rows = pa.array([row_of_track[t] for t in found["track_id"].to_pylist()], pa.int64())
    args = Texts()
    texts = [args_by_set.get(s, b"") for s in found["arg_set_id"].to_pylist()]
    args.add(texts)
    arguments = dialect.arguments(texts)
    cats = _name(found["category"])
    columns = [
        _int64(found["id"]),
        cats,
        _name(found["name"], dialect.names),
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
    categories = enumerate(cats.dictionary.to_pylist())
    gpu_cats = [n for n, cat in categories if dialect.may_be_activity(cat)]
    on_gpu = np.flatnonzero(np.isin(cats.indices.fill_null(-1).to_numpy(), gpu_cats))
    activities = activity_table(on_gpu, arguments)
    return pa.table(columns, schema=SLICE), activities, pc.sum(unfinished).as_py() or 0


def _args_by_set(tp: Engine) -> dict[int | None, bytes]:
    """The JSON text of each set of arguments; flattened lists (`grid[0]`) are restored."""
    sets: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    columns = (column.to_pylist() for column in arrow_table(tp, _ARGS).columns)
    for arg_set, key, kind, integer, real, text in zip(*columns, strict=True):
        name, positions = _name_and_positions(key)
        _put(sets[arg_set], key, name, positions, _argument_value(kind, integer, real, text))
    return {arg_set: json.dumps(args).encode() for arg_set, args in sets.items()}


@cache
def _name_and_positions(key: str) -> tuple[str, Sequence[int]]:
    """`grid` and its positions for `debug.grid[0]`; no positions outside lists."""
    name = _PREFIX.sub("", key)
    positions = _POSITIONS.search(name)
    if positions is None:
        return name, ()
    return name[: positions.start()], [int(n) for n in re.findall("[0-9]+", positions[1])]


def _put(args: dict[str, Any], key: str, name: str, positions: Sequence[int], value: Any) -> None:
    """Puts a value into its list, or under its whole key if the position is invalid."""
    if not positions:
        args[name] = value
        return
    outermost = args.get(name, [])
    innermost, last = _innermost(outermost, positions), positions[-1]
    if innermost is None or innermost[last : last + 1] not in ([], [None], [[]]):
        args[_PREFIX.sub("", key)] = value
        return
    args[name] = outermost
    innermost.extend([None] * (last + 1 - len(innermost)))
    innermost[last] = value


def _innermost(place: Any, positions: Sequence[int]) -> list[Any] | None:
    """The list with the last of these positions; None if a position is invalid."""
    for position in positions[:-1]:
        if not _has_room(place, position):
            return None
        place.extend([] for _ in range(position + 1 - len(place)))
        place = place[position]
    return place if _has_room(place, positions[-1]) else None


def _has_room(place: Any, position: int) -> bool:
    return isinstance(place, list) and position <= len(place) + _MOST_GAPS


def _argument_value(kind: str, integer: int | None, real: float | None, text: str | None) -> Any:
    if kind in ("string", "json"):
        return text
    if kind == "real":
        return real
    return bool(integer) if kind == "bool" else integer


def _int64(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.int64())


def _name(column: pa.ChunkedArray, renamed: Mapping[str, str] = MappingProxyType({})) -> pa.Array:
    codes = column.combine_chunks().cast(pa.large_string()).dictionary_encode().cast(NAME)
    if not renamed:
        return codes
    names = [renamed.get(name, name) for name in codes.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(codes.indices, pa.array(names, pa.large_string()))


def _named_tracks(tracks: pa.Table) -> list[Track]:
    columns = (tracks[name].to_pylist() for name in ("pid", "tid", "process_name", "thread_name"))
    return [Track(*names) for names in zip(*columns, strict=True)]


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


def _remarks(
    in_file: TrackEvents, unfinished: int, counters: int, slices: int, lost: Losses
) -> Iterator[Remark]:
    errors = "errors reported by the trace processor"
    yield _loss_remark("trace processor errors", lost.lost, errors)
    endless = "slices that never end, which last until the end of the trace; all slices"
    yield Remark("slices without an end", unfinished, slices, None, endless)
    samples = "counter samples in the file, which are not loaded"
    yield Remark("counters not loaded", counters, counters, None, samples)
    unmatched = in_file.ends - (in_file.begins - unfinished)
    if slices == in_file.slices.total() and unmatched > 0:
        is_cut_off = None if unmatched <= in_file.early_ends else False
        yield Remark("ends without a slice", unmatched, in_file.ends, is_cut_off, _UNMATCHED)
    if stages := in_file.render_stages:
        yield Remark("GPU render stages", 0, stages, False, _RENDER_STAGES)
    if in_file.cut_texts:
        cut = "names and categories with a zero byte, where the trace processor cuts them"
        yield Remark("texts cut", in_file.cut_texts, 0, False, cut)
    dropped = {"previous_packet_dropped": in_file.drops} if in_file.drops else {}
    if recording := dict(lost.recording) | dropped:
        missing = "losses that the recording reports, of events that are not in the file"
        yield _loss_remark("lost while recording", recording, missing)


def _loss_remark(check_name: str, statistics: Mapping[str, int], note: str) -> Remark:
    """A check that fails if any of these statistics was recorded."""
    note = f"{note}: {listed(statistics)}" if statistics else note
    return Remark(check_name, sum(statistics.values()), 0, not statistics, note)
