"""The events of a file, section by section, in one process or several."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.compression import MAGIC_BYTES, packing_of
from traceql.readers.dictionary_codes import DistinctValues
from traceql.readers.formats.kineto.gathering import END, Gathered, TrackNumbers
from traceql.readers.formats.kineto.gpus_of_processes import linked
from traceql.readers.formats.kineto.kineto_json import Cut, Event, KinetoJson, Repairs
from traceql.readers.formats.kineto.ledger import Counts
from traceql.readers.formats.kineto.merged import (
    MergedRank,
    about_ranks,
    events_by_rank,
    merged_ranks,
)
from traceql.readers.formats.kineto.streaming.scratch import Scratch
from traceql.readers.formats.kineto.times import Int64s, Span
from traceql.readers.formats.kineto.unescaped import read_json
from traceql.readers.tables import ACTIVITY, INSTANT, SLICE
from traceql.readers.tracks import Track

_EVENTS = 100_000  # of a section, at least
# Columns of the contract that are unknown until all tracks and parents are known.
_LATER = ("index", "pid", "tid", "parent", "depth")
KNOWN = pa.schema([field_ for field_ in SLICE if field_.name not in _LATER])
POINT = pa.schema([field_ for field_ in INSTANT if field_.name not in _LATER])
NUMBERED_END = pa.schema([("number", pa.int64()), *END])  # numbers in the order of the file
# Slices for nesting: durations are not negative, numbers are the indexes of slices.
SPAN = pa.schema([(name, pa.int64()) for name in ("track", "ts", "dur", "number")])


@dataclass
class Sections:
    """A parsed file.

    The tables in `scratch` are slice (columns `KNOWN`), span (`SPAN`), activity, instant (`POINT`),
    counter (whose `track` is a place) and end (`NUMBERED_END`), with a part for each section. Only
    span and end are sorted.
    """

    scratch: Scratch
    slices: list[int] = field(default_factory=list)  # the number of slices in each section
    launching: set[int] = field(default_factory=set)  # tracks with launches
    active: set[int] = field(default_factory=set)  # tracks with possible activities
    ends: int = 0
    negative: int = 0  # slices with a negative duration
    host_pids: set[Any] = field(default_factory=set)  # processes with events of the host
    counts: Counts = field(default_factory=Counts)
    tracks: TrackNumbers = field(default_factory=TrackNumbers)
    about_tracks: list[Event] = field(default_factory=list)  # metadata events
    borders: list[Event] = field(default_factory=list)  # begins and ends of slices
    pairs: int = 0  # slices made of them
    end_places: DistinctValues = field(default_factory=DistinctValues)  # processes and threads
    counter_places: DistinctValues = field(default_factory=DistinctValues)  # the same of counters
    metadata: dict[str, Any] = field(default_factory=dict)
    repairs: Repairs = field(default_factory=Repairs)
    span: Span = field(default_factory=Span)
    families: DistinctValues = field(default_factory=DistinctValues)  # names, categories of flows
    _first: tuple[int, int, int] | None = None  # start, duration below zero, index

    @property
    def first(self) -> tuple[int, int]:
        """Index and start, ns, of the slice that begins first, or of the longest of them."""
        ts, _, index = self._first or (0, 0, -1)
        return index, ts

    def ranks(self) -> list[MergedRank]:
        """The ranks of a merged file; empty for a file of one rank."""

        def tracks() -> list[Track]:
            return self.tracks.so_far(self.about_tracks)

        def parts() -> Iterator[pa.Table]:
            before, named = 0, tracks()
            tables = self.scratch.parts("slice"), self.scratch.parts("activity")
            for slices, activity in zip(*tables, strict=True):
                yield linked(slices, activity, named, before)
                before += len(slices)

        return merged_ranks(
            hosts=self.tracks.pids(self.launching),
            possible=self.tracks.pids(self.active),
            tracks=tracks,
            linked=parts,
        )

    def number_tracks_of(self, places: Set[int]) -> None:
        """Numbers the tracks of places that have flow ends but no slices."""
        self.tracks.numbered(list(self.end_places), np.array(sorted(places), np.int64))

    def include(self, other: "Sections") -> None:
        """Adds the next range of the file, without its tables."""
        before = sum(self.slices)
        if other._first:
            ts, shorter, index = other._first
            begun = ts, shorter, before + index
            self._first = min(begun, self._first or begun)
        self.slices += other.slices
        self.ends += other.ends
        self.negative += other.negative
        self.counts.include(other.counts)
        self.span.include(other.span)
        self.about_tracks += other.about_tracks
        self.borders += other.borders
        self.host_pids |= other.host_pids
        self.repairs.wrong_bytes += other.repairs.wrong_bytes

    def add_pairs(self) -> None:
        """Adds the slices of begin and end events as one more section."""
        if self.borders:
            last = Gathered((), self.tracks)
            last.add_pairs(self.borders)
            self.pairs = last.pairs
            self.add(last)

    def add(self, columns: Gathered) -> None:
        """Adds the events of the next section."""
        slices, points, before = columns.slices, columns.instants, sum(self.slices)
        ts, dur = slices.ts, slices.dur
        known = [
            slices.cat,
            slices.name,
            pa.array(ts),
            pa.array(dur),
            pa.array(slices.track),
            slices.external_id,
            slices.correlation,
            slices.args,
        ]
        self.scratch.append("slice", pa.table(known, schema=KNOWN))
        span = [slices.track, ts, np.maximum(dur, 0), np.arange(before, before + len(ts))]
        self.scratch.add("span", pa.table(list(map(pa.array, span)), schema=SPAN))
        activity = slices.activity
        later = pa.array(activity["index"].to_numpy() + before)
        self.scratch.append("activity", activity.set_column(0, ACTIVITY.field(0), later))
        point = [points.cat, points.name, pa.array(points.ts), pa.array(points.track), points.args]
        self.scratch.append("instant", pa.table(point, schema=POINT))
        samples = columns.samples.table(self.counter_places)
        self.scratch.append("counter", samples)
        ends = columns.flow_ends.table(self.families, self.end_places)
        numbers = pa.array(np.arange(self.ends, self.ends + len(ends)))
        self.scratch.add("end", ends.add_column(0, NUMBERED_END.field(0), numbers))
        self.span.add(ts, dur, points.ts, samples["ts"].to_numpy())
        self.launching |= slices.launching
        self.active |= slices.active
        self.slices.append(len(ts))
        self.host_pids |= slices.host_pids()
        self.ends += len(ends)
        self.negative += int((dur < 0).sum())
        self.counts.add(columns)
        self.about_tracks += columns.about_tracks
        self.borders += columns.borders
        if len(ts):
            first = np.flatnonzero(ts == ts.min())
            at = int(first[np.argmax(np.maximum(dur[first], 0))])
            begun = (int(ts[at]), -max(int(dur[at]), 0), before + at)
            self._first = min(begun, self._first or begun)


def sections(path: Path, scratch: Scratch, texts: Iterable[bytes] | None = None) -> Sections:
    """Parses a file, or the given parts of its text, into tables of the scratch.

    Raises:
        TraceCorrupt: it is not a trace, is damaged, or has events without a time. The message does
            not name the file.
    """
    read = partial(_read, scratch)
    return read(KinetoJson(path, texts)) if texts else read_json(path, read)


def _read(scratch: Scratch, trace: KinetoJson) -> Sections:
    scratch.clear()  # of an attempt that failed
    found = Sections(scratch)
    for batches in _grouped(trace.scanned()):
        found.add(Gathered(batches, found.tracks))
    found.metadata, found.repairs = trace.metadata, trace.repairs
    return found


def sections_of_ranks(
    path: Path, ranks: Sequence[MergedRank], scratches: Sequence[Scratch]
) -> list[Sections]:
    """Parses a merged file; the events of each rank go into tables of its own scratch."""
    return read_json(path, partial(_read_ranks, ranks, scratches))


def _read_ranks(
    ranks: Sequence[MergedRank], scratches: Sequence[Scratch], trace: KinetoJson
) -> list[Sections]:
    for scratch in scratches:
        scratch.clear()
    found = [Sections(scratch) for scratch in scratches]
    for batches in _grouped(trace):
        gathered = [Gathered((), one.tracks) for one in found]
        for batch in batches:
            for columns, events in zip(gathered, events_by_rank(batch, ranks), strict=True):
                columns.add(events)
        for one, columns in zip(found, gathered, strict=True):
            one.add(columns)
    for one, rank, about in zip(found, ranks, about_ranks(trace.metadata, ranks), strict=True):
        one.add_pairs()
        one.metadata = about
        one.repairs = trace.repairs if rank.is_first else Repairs()
    return found


def _grouped(trace: Iterable[Cut]) -> Iterator[Iterator[Cut]]:
    """The batches of one section after the other; batches are parsed lazily."""
    batches = iter(trace)

    def section(first: Cut) -> Iterator[Cut]:
        events = len(first)
        yield first
        while events < _EVENTS and (batch := next(batches, None)) is not None:
            events += len(batch)
            yield batch

    return map(section, batches)


_PIECE_BYTES = 1 << 18
_SEARCHED_BYTES = 1 << 20  # for the next seam between two events
_LEAST_BYTES = 64 << 20  # of a range: for less, starting a process is not worth the time
_FIRST_KEY = re.compile(rb'"traceEvents"\s*:\s*\[\s*\{\s*("[^"\\]*")\s*:')
_BEGIN, _END = b'{"traceEvents":[', b"]}"


@dataclass(frozen=True)
class Range:
    """Bytes of a trace between two seams of events, or an end of the file."""

    begin: int
    end: int
    is_first: bool
    is_last: bool

    def texts(self, path: Path) -> Iterator[bytes]:
        """A trace with the events of the range, and the metadata before or after all events."""
        if not self.is_first:
            yield _BEGIN
        with path.open("rb") as file:
            file.seek(self.begin)
            left = self.end - self.begin
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
                yield piece
        if not self.is_last:
            yield _END


def ranges(path: Path, wanted: int) -> list[Range]:
    """Up to `wanted` ranges of similar size; none if the file can only be read as a whole.

    A seam may turn out to be text, or a list inside an event: then it splits an event, and the
    range before it is not JSON.
    """
    size = path.stat().st_size
    number = min(wanted, size // _LEAST_BYTES)
    with path.open("rb") as file:
        head = file.read(_SEARCHED_BYTES)
        opening = _FIRST_KEY.search(head)
        if number < 2 or packing_of(head[:MAGIC_BYTES]) or not opening:
            return []
        seam = re.compile(rb"\}\s*,\s*(?=\{\s*%b\s*:)" % re.escape(opening[1]))
        seams = []  # the end of an event, and the start of the next one
        for place in range(1, number):
            near = size * place // number
            file.seek(near)
            if found := seam.search(file.read(_SEARCHED_BYTES)):
                seams.append((near + found.start() + 1, near + found.end()))
    borders = [(0, 0), *dict.fromkeys(seams), (size, size)]
    last = len(borders) - 2
    return [
        Range(begin, end, is_first=place == 0, is_last=place == last)
        for place, ((_, begin), (end, _)) in enumerate(pairwise(borders))
        if last
    ]


def sections_by_range(path: Path, scratch: Scratch, processes: int) -> Sections | None:
    """The events of a file, parsed by up to `processes` processes.

    None if the file can only be read as a whole: it is small, compressed or damaged, or a seam was
    wrong.
    """
    parts = ranges(path, processes)
    if not parts:
        return None
    folders = [scratch.folder_for(f"range{number}") for number in range(len(parts))]
    with ProcessPoolExecutor(len(parts), get_context("spawn")) as pool:
        jobs = [pool.submit(_parsed, path, *one) for one in zip(parts, folders, strict=True)]
        try:
            return _joined([job.result() for job in jobs], scratch)
        except TraceCorrupt:
            return None


def _parsed(path: Path, part: Range, folder: Path) -> Sections:
    """The events of a range, in its own process."""
    return sections(path, Scratch(folder, memory_bytes=0), part.texts(path))


def _joined(parts: Sequence[Sections], scratch: Scratch) -> Sections:
    """The events of all ranges, with numbers as if one process had read them."""
    whole = Sections(scratch)
    for part in parts:
        whole.metadata |= part.metadata
        tracks = whole.tracks.merged(part.tracks)
        whole.launching.update(tracks[sorted(part.launching)].tolist())
        whole.active.update(tracks[sorted(part.active)].tolist())
        family = whole.families.of(list(part.families))
        place = whole.end_places.of(list(part.end_places))
        counted = whole.counter_places.of(list(part.counter_places))
        slices, ends = sum(whole.slices), whole.ends
        scratch.adopt(
            part.scratch.files,
            {
                "slice": partial(_mapped, track=tracks),
                "instant": partial(_mapped, track=tracks),
                "counter": partial(_mapped, track=counted),
                "span": partial(_mapped, track=tracks, number=slices),
                "activity": partial(_mapped, index=slices),
                "end": partial(_mapped, number=ends, family=family, place=place),
            },
        )
        whole.include(part)
    return whole


def _mapped(rows: pa.Table, **columns: Int64s | int) -> pa.Table:
    """Rows with new numbers: each column is shifted by an integer, or mapped by an array."""
    for name, change in columns.items():
        values = rows[name].to_numpy()
        numbers = values + change if isinstance(change, int) else change[values]
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(numbers))
    return rows
