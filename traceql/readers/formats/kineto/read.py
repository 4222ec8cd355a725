"""Reads a JSON trace: parses it, nests the slices with the trace processor, builds the tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers import feed
from traceql.readers.arguments import int64_column, whole_numbers
from traceql.readers.device_activities import DeviceActivities
from traceql.readers.dialects.pytorch.vocabulary import Metadata
from traceql.readers.dictionary_codes import DistinctValues
from traceql.readers.flows import Flows
from traceql.readers.formats.kineto.gathering import Gathered
from traceql.readers.formats.kineto.gpus_of_processes import linked
from traceql.readers.formats.kineto.kineto_json import Event, KinetoJson, Repairs
from traceql.readers.formats.kineto.ledger import Counts, remarks, repair_checks
from traceql.readers.formats.kineto.merged import (
    MergedRank,
    about_ranks,
    events_by_rank,
    merged_ranks,
)
from traceql.readers.formats.kineto.times import Span
from traceql.readers.formats.kineto.unescaped import read_json
from traceql.readers.nesting import Nesting, nesting
from traceql.readers.tables import FLOW, INSTANT, SLICE, Remark, TraceTables, remark_table
from traceql.readers.timeline import Timeline, complete_timeline, point_timeline
from traceql.readers.tracks import Track, track_table

Kept = Callable[[Iterable[list[Event]]], Iterable[list[Event]]]


@dataclass(frozen=True)
class KinetoEvents:
    """The parsed events of one file, with exact times and tracks."""

    columns: Gathered
    slices: Timeline
    instants: Timeline
    flows: Flows
    counters: pa.Table
    tracks: list[Track]
    metadata: dict[str, Any]
    repairs: Repairs


def read_kineto(path: Path, *, trace_processor: Path | None) -> Iterator[TraceTables]:
    """The tables of a JSON trace of PyTorch's profiler, on CUDA or ROCm; of each rank, if merged.

    Raises:
        TraceCorrupt: as `kineto_events` does; or a merged file has ranks that cannot be separated.
    """
    with _naming(path):
        trace, columns = read_json(path, _gathered)
        ranks = _ranks(columns)
        found = None if ranks else events_in(columns, trace.metadata, trace.repairs)
    if found:
        yield tables_of(found, trace_processor=trace_processor)
        return
    del columns
    for events in _events_of_ranks(path, ranks):
        yield tables_of(events, trace_processor=trace_processor)


def tables_of(
    kineto: KinetoEvents, *, trace_processor: Path | None, more_checks: Iterable[Remark] = ()
) -> TraceTables:
    """The tables of parsed events, whose slices are nested by the trace processor."""
    nested = nesting(kineto.slices, kineto.flows, kineto.tracks, trace_processor=trace_processor)
    counts = Counts()
    counts.add(kineto.columns)
    checks = remarks(kineto.columns, kineto.slices, kineto.flows, nested)
    slices = _slice_table(kineto, nested)
    devices = DeviceActivities(kineto.tracks, kineto.columns.slices.host_pids)
    tables = {
        "slice": slices,
        "activity": devices.found(kineto.columns.slices.activity, slices),
        "flow": pa.table([nested.slice_out, nested.slice_in], schema=FLOW),
        "instant": instant_table(kineto),
        "counter": kineto.counters,
        "track": track_table(kineto.tracks),
        "count": counts.table(),
        "load_check": remark_table(
            [*checks, *repair_checks(kineto.repairs), *devices.remarks(), *more_checks]
        ),
    }
    return TraceTables(tables, kineto.metadata)


def kineto_events(path: Path, *, kept: Kept | None = None) -> KinetoEvents:
    """Parses a file and computes the times and tracks of its events.

    Args:
        kept: removes events from the batches; none by default.

    Raises:
        TraceCorrupt: the file is not a trace, is damaged, or has events without a time.
    """
    with _naming(path):
        trace, columns = read_json(path, partial(_gathered, kept=kept))
        return events_in(columns, trace.metadata, trace.repairs)


def _gathered(trace: KinetoJson, kept: Kept | None = None) -> tuple[KinetoJson, Gathered]:
    columns = Gathered(kept(trace) if kept else trace.scanned())
    columns.add_pairs(columns.borders)
    return trace, columns


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts the path before the message of an error."""
    try:
        yield
    except TraceCorrupt as error:
        raise type(error)(f"{path}: {error}") from None


def events_in(columns: Gathered, metadata: dict[str, Any], repairs: Repairs) -> KinetoEvents:
    """The times and tracks of events.

    Raises:
        TraceCorrupt: their times do not fit 64 bits; the message names no file.
    """
    complete, points, places = columns.slices, columns.instants, DistinctValues()
    samples = columns.samples.table(places)
    span = Span()
    span.add(complete.ts, complete.dur, points.ts, samples["ts"].to_numpy())
    span.require_fits()
    slices = complete_timeline(complete.ts, complete.dur, complete.track)
    instants = point_timeline(points.ts, points.track, slices)
    flows = columns.flow_ends.flows(slices)
    counters = columns.tracks.placed(samples, places)
    tracks = columns.tracks.named(columns.about_tracks)
    return KinetoEvents(columns, slices, instants, flows, counters, tracks, metadata, repairs)


def _ranks(columns: Gathered) -> list[MergedRank]:
    """The ranks of a merged file; empty for a file of one rank."""
    slices, tracks = columns.slices, columns.tracks

    def parts() -> Iterator[pa.Table]:
        known = {"track": pa.array(slices.track), "ts": pa.array(slices.ts)}
        known |= {"cat": slices.cat, "correlation": slices.correlation}
        yield linked(pa.table(known), slices.activity, tracks.so_far(columns.about_tracks))

    return merged_ranks(
        hosts=tracks.pids(slices.launching),
        possible=tracks.pids(slices.active),
        tracks=lambda: tracks.so_far(columns.about_tracks),
        linked=parts,
    )


def _events_of_ranks(path: Path, ranks: Sequence[MergedRank]) -> Iterator[KinetoEvents]:
    """The events of each rank of a merged file, which is parsed again."""
    with _naming(path):
        trace, gathered = read_json(path, partial(_gathered_by_rank, ranks=ranks))
    gathered.reverse()  # each is freed when it has been read
    for rank, about in zip(ranks, about_ranks(trace.metadata, ranks), strict=True):
        repairs = trace.repairs if rank.is_first else Repairs()
        with _naming(path):
            events = events_in(gathered.pop(), about, repairs)
        yield events


def _gathered_by_rank(
    trace: KinetoJson, ranks: Sequence[MergedRank]
) -> tuple[KinetoJson, list[Gathered]]:
    found = [Gathered(()) for _ in ranks]
    for batch in trace:
        for columns, events in zip(found, events_by_rank(batch, ranks), strict=True):
            columns.add(events)
    for columns in found:
        columns.add_pairs(columns.borders)
    return trace, found


def perfetto_feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """A rank as JSON for the trace processor, with times relative to `base_ns`.

    Args:
        metadata: of the rank, as loaded.
    """
    kineto = _events_of(path, metadata)
    slices, tracks = kineto.slices, kineto.tracks
    ids = feed.dense_ids(tracks, slices)
    columns = kineto.columns.slices
    described = feed.Described(columns.cat, columns.name, columns.args)
    return feed.described_feed(slices, described, kineto.flows, tracks, ids, feed.FedTimes(base_ns))


def _events_of(path: Path, metadata: Mapping[str, Any]) -> KinetoEvents:
    merged = metadata.get(Metadata.MERGED)
    if not merged:
        return kineto_events(path)
    ranks = _ranks(read_json(path, _gathered)[1])
    return next(islice(_events_of_ranks(path, ranks), merged[Metadata.MERGED_NUMBER], None))


def _slice_table(kineto: KinetoEvents, nested: Nesting) -> pa.Table:
    slices, columns = kineto.slices, kineto.columns.slices
    of_columns = [
        pa.array(np.arange(len(slices))),
        columns.cat,
        columns.name,
        pa.array(slices.ts),
        pa.array(slices.dur),
        *places(slices, kineto.tracks),
        nested.parent,
        nested.depth,
        columns.external_id,
        columns.correlation,
        columns.args,
    ]
    return pa.table(of_columns, schema=SLICE)


def instant_table(kineto: KinetoEvents) -> pa.Table:
    instants, columns = kineto.instants, kineto.columns.instants
    of_columns = [
        columns.cat,
        columns.name,
        pa.array(instants.ts),
        *places(instants, kineto.tracks),
        columns.args,
    ]
    return pa.table(of_columns, schema=INSTANT)


def places(timeline: Timeline, tracks: Sequence[Track]) -> tuple[pa.Array, pa.Array, pa.Array]:
    number = pa.array(timeline.track)
    pid = int64_column(whole_numbers([track.pid for track in tracks]))
    tid = int64_column(whole_numbers([track.tid for track in tracks]))
    return pid.take(number), tid.take(number), number
