"""Reads Kineto JSON through the trace processor, and proves that nothing was lost on the way."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.reader import feed
from traceql.reader.activities import activity_table
from traceql.reader.arguments import Arguments, args_column, decoded, int64_column
from traceql.reader.coded import coded
from traceql.reader.counted_ns import counted_ns
from traceql.reader.flows import Flows, flow_ends
from traceql.reader.kineto_json import Event, of_phases, read_kineto_json
from traceql.reader.nesting import Nesting, nesting
from traceql.reader.tables import COUNT, FLOW, INSTANT, REMARK, SLICE, TRACK, TraceTables
from traceql.reader.timeline import Timeline, complete_events, point_events
from traceql.reader.tracks import Track, Tracks, unread

_INSTANT_PHASES = "iIRn"


@dataclass(frozen=True)
class KinetoEvents:
    """One file, parsed and placed on its timeline."""

    slices: Timeline
    instants: Timeline
    flows: Flows
    tracks: list[Track]
    phases: Counter[str]
    unread_metadata: int  # metadata events of which no column tells
    metadata: dict[str, Any]


def read_kineto(path: Path, *, trace_processor: Path | None) -> TraceTables:
    """The tables of a PyTorch profiler trace, CUDA or ROCm (a `Reader`)."""
    kineto = kineto_events(path)
    events = kineto.slices.events
    cats, args = _names([e.cat for e in events]), args_column(events)
    arguments = decoded(args)
    nested = nesting(kineto.slices, kineto.flows, kineto.tracks, trace_processor=trace_processor)
    tables = {
        "slice": _slice_table(kineto, nested, cats, args, arguments),
        "activity": activity_table(cats, arguments),
        "flow": pa.table([nested.slice_out, nested.slice_in], schema=FLOW),
        "instant": _instant_table(kineto),
        "track": _track_table(kineto.tracks),
        "count": _count_table(kineto, cats),
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
        instants = point_events(of_phases(by_phase, _INSTANT_PHASES), tracks, slices)
        flows = flow_ends(by_phase, tracks, slices)
    except TraceCorrupt as error:
        raise TraceCorrupt(f"{path}: {error}") from None
    about_tracks = by_phase.get("M", [])
    named = tracks.named(about_tracks)
    phases = Counter({phase: len(events) for phase, events in by_phase.items()})
    return KinetoEvents(
        slices, instants, flows, named, phases, unread(about_tracks), trace.metadata
    )


def perfetto_feed(path: Path, base_ns: int) -> Iterator[bytes]:
    """The file as JSON for PerfettoSQL: names, categories and arguments, times since `base_ns`."""
    kineto = kineto_events(path)
    slices, tracks = kineto.slices, kineto.tracks
    ids = feed.dense_ids(tracks, slices)
    return feed.described_feed(slices, kineto.flows, tracks, ids, feed.Clock(base_ns))


def _names(values: Sequence[Any]) -> pa.DictionaryArray:
    """Names as codes into the distinct ones; what is no string becomes one."""
    distinct, codes = coded(values)
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), _texts(distinct))


def _places(timeline: Timeline, tracks: Sequence[Track]) -> tuple[pa.Array, pa.Array, pa.Array]:
    number = pa.array(timeline.track)
    pid = int64_column([track.pid for track in tracks])
    tid = int64_column([track.tid for track in tracks])
    return pid.take(number), tid.take(number), number


def _slice_table(
    kineto: KinetoEvents,
    nested: Nesting,
    cats: pa.DictionaryArray,
    args: pa.Array,
    arguments: Sequence[Arguments],
) -> pa.Table:
    slices = kineto.slices
    columns = [
        pa.array(np.arange(len(slices.events))),
        cats,
        _names([e.name for e in slices.events]),
        pa.array(slices.ts),
        pa.array(slices.dur),
        *_places(slices, kineto.tracks),
        nested.parent,
        nested.depth,
        int64_column([a.external_id for a in arguments]),
        int64_column([a.correlation for a in arguments]),
        args,
    ]
    return pa.table(columns, schema=SLICE)


def _instant_table(kineto: KinetoEvents) -> pa.Table:
    instants = kineto.instants
    events = instants.events
    columns = [
        _names([e.cat for e in events]),
        _names([e.name for e in events]),
        pa.array(instants.ts),
        *_places(instants, kineto.tracks),
        args_column(events),
    ]
    return pa.table(columns, schema=INSTANT)


def _track_table(tracks: Sequence[Track]) -> pa.Table:
    columns = [
        pa.array(range(len(tracks)), pa.int64()),
        _texts([track.pid for track in tracks]),
        _texts([track.tid for track in tracks]),
        _texts([track.process_name for track in tracks]),
        _texts([track.thread_name for track in tracks]),
        _texts([track.process_labels for track in tracks]),
        int64_column([track.process_sort_index for track in tracks]),
        int64_column([track.thread_sort_index for track in tracks]),
    ]
    return pa.table(columns, schema=TRACK)


def _texts(values: Sequence[Any]) -> pa.Array:
    texts = [None if value is None else str(value) for value in values]
    return pa.array(texts, pa.large_string())


def _count_table(kineto: KinetoEvents, cats: pa.DictionaryArray) -> pa.Table:
    """Counted from the text of the file, apart from the arithmetic that slices go through."""
    codes, dur = cats.indices.to_numpy(), counted_ns([e.dur for e in kineto.slices.events])
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
    bound, flows = len(nested.slice_out), kineto.flows.finishes
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
    if about_tracks := kineto.phases["M"]:
        rows.append(
            {
                "check": "metadata events",
                "value": about_tracks - kineto.unread_metadata,
                "total": about_tracks,
                "ok": not kineto.unread_metadata,
                "note": "names, labels and sort indexes of processes and threads, in track",
            }
        )
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
