"""Reads Kineto JSON through the trace processor, and proves that nothing was lost on the way."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.reader import feed
from traceql.reader.arguments import args_column, id_columns, int64_column
from traceql.reader.kineto_json import Event, read_kineto_json
from traceql.reader.nesting import Nesting, nesting
from traceql.reader.tables import COUNT, FLOW, INSTANT, REMARK, SLICE, TRACK, TraceTables
from traceql.reader.timeline import Timeline, complete_events, point_events
from traceql.reader.tracks import Track, Tracks

_INSTANT_PHASES = "iIRn"
_FLOW_PHASES = "stf"


@dataclass(frozen=True)
class KinetoEvents:
    """One file, parsed and placed on its timeline."""

    slices: Timeline
    instants: Timeline
    flows: Timeline
    tracks: list[Track]
    phases: Counter[str]
    metadata: dict[str, Any]


def read_kineto(path: Path, *, trace_processor: Path | None) -> TraceTables:
    """The tables of a PyTorch profiler trace, CUDA or ROCm (a `Reader`)."""
    kineto = kineto_events(path)
    nested = nesting(kineto.slices, kineto.flows, kineto.tracks, trace_processor=trace_processor)
    tables = {
        "slice": _slice_table(kineto.slices, nested),
        "flow": pa.table([nested.slice_out, nested.slice_in], schema=FLOW),
        "instant": _instant_table(kineto.instants),
        "track": _track_table(kineto.tracks),
        "count": _count_table(kineto),
        "remark": _remark_table(kineto, nested),
    }
    return TraceTables("trace_processor", "json", tables, kineto.metadata)


def kineto_events(path: Path) -> KinetoEvents:
    """Parses a file and places its events.

    Raises:
        TraceCorrupt: the file is no trace, is damaged, or has events without a time.
    """
    trace = read_kineto_json(path)
    by_phase: defaultdict[str, list[Event]] = defaultdict(list)
    for event in trace.events:
        by_phase[event.ph].append(event)
    tracks = Tracks()
    try:
        slices = complete_events(by_phase.get("X", []), tracks)
        instants = point_events(_of_phases(by_phase, _INSTANT_PHASES), tracks, slices)
        flows = point_events(_with_a_start(_of_phases(by_phase, _FLOW_PHASES)), tracks, slices)
    except TraceCorrupt as error:
        raise TraceCorrupt(f"{path}: {error}") from None
    named = tracks.named(by_phase.get("M", []))
    phases = Counter({phase: len(events) for phase, events in by_phase.items()})
    return KinetoEvents(slices, instants, flows, named, phases, trace.metadata)


def perfetto_feed(path: Path, base_ns: int) -> Iterator[bytes]:
    """The file as JSON for PerfettoSQL: names, categories and arguments, times since `base_ns`."""
    kineto = kineto_events(path)
    slices, tracks = kineto.slices, kineto.tracks
    ids = feed.dense_ids(tracks, slices)
    return feed.described_feed(slices, kineto.flows, tracks, ids, feed.Clock(base_ns))


def _of_phases(by_phase: Mapping[str, list[Event]], phases: str) -> list[Event]:
    return [event for phase in phases for event in by_phase.get(phase, [])]


def _with_a_start(flows: Sequence[Event]) -> list[Event]:
    """Without the ends that the profiler writes for launches whose flow never began."""
    starts = {(e.cat, bytes(e.id)) for e in flows if e.ph == "s"}
    return [e for e in flows if (e.cat, bytes(e.id)) in starts]


def _names(values: Sequence[Any]) -> pa.DictionaryArray:
    """Names as codes into the distinct ones; what is no string becomes one."""
    distinct = dict.fromkeys(values)
    code = {value: n for n, value in enumerate(distinct)}
    codes = np.fromiter(map(code.__getitem__, values), np.int32, len(values))
    names = [None if value is None else str(value) for value in distinct]
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.large_string()))


def _places(timeline: Timeline) -> tuple[pa.Array, pa.Array, pa.Array]:
    pid = int64_column([e.pid for e in timeline.events])
    tid = int64_column([e.tid for e in timeline.events])
    return pid, tid, pa.array(timeline.track)


def _slice_table(slices: Timeline, nested: Nesting) -> pa.Table:
    events = slices.events
    external_id, correlation = id_columns(events)
    columns = [
        pa.array(np.arange(len(events))),
        _names([e.cat for e in events]),
        _names([e.name for e in events]),
        pa.array(slices.ts),
        pa.array(slices.dur),
        *_places(slices),
        nested.parent,
        nested.depth,
        external_id,
        correlation,
        args_column(events),
    ]
    return pa.table(columns, schema=SLICE)


def _instant_table(instants: Timeline) -> pa.Table:
    events = instants.events
    columns = [
        _names([e.cat for e in events]),
        _names([e.name for e in events]),
        pa.array(instants.ts),
        *_places(instants),
        args_column(events),
    ]
    return pa.table(columns, schema=INSTANT)


def _track_table(tracks: Sequence[Track]) -> pa.Table:
    columns = [
        range(len(tracks)),
        [_text(track.pid) for track in tracks],
        [_text(track.tid) for track in tracks],
        [track.process_name for track in tracks],
        [track.thread_name for track in tracks],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, TRACK, strict=True)]
    return pa.table(arrays, schema=TRACK)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _count_table(kineto: KinetoEvents) -> pa.Table:
    """Counted from the parsed file, not from what the trace processor returned."""
    cats = _names([e.cat for e in kineto.slices.events])
    codes, dur = cats.indices.to_numpy(), kineto.slices.dur
    rows: list[dict[str, Any]] = []
    for code, cat in enumerate(cats.dictionary.to_pylist()):
        durations = dur[codes == code]
        total = {"events": len(durations), "dur": int(durations.sum())}
        rows.append({"phase": "slice", "cat": cat or "", **total})
    for phase, n in kineto.phases.items():
        if phase != "X":
            rows.append({"phase": phase, "cat": "", "events": n, "dur": 0})
    return pa.Table.from_pylist(rows, COUNT)


def _remark_table(kineto: KinetoEvents, nested: Nesting) -> pa.Table:
    spread = int((kineto.slices.lane > 0).sum())
    negative = int((kineto.slices.dur < 0).sum())
    total = len(kineto.slices.events)
    bound, flows = len(nested.slice_out), sum(e.ph == "f" for e in kineto.flows.events)
    rows = [
        {
            "check": "overlapping events",
            "value": spread,
            "total": total,
            "note": "begin inside another event of their thread or stream and outlive it; kept",
        },
        {
            "check": "trace processor errors",
            "value": 0,
            "total": 0,
            "ok": True,
            "note": f"no error statistics from {nested.engine}",
        },
        {
            "check": "flows bound to slices",
            "value": bound,
            "total": flows,
            "ok": True if bound == flows else None,
            "note": "flow ends whose start is in the file; those outside any slice stay out",
        },
    ]
    if negative:
        rows.append(
            {
                "check": "negative durations",
                "value": negative,
                "total": total,
                "ok": False,
                "note": "kept as they are in slice; empty wherever time is measured",
            }
        )
    return pa.Table.from_pylist(rows, REMARK)
