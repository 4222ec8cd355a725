"""The events of a file, section by section, before their parents are known."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.readers.coded import DistinctValues
from traceql.readers.formats.kineto.counting import Counts
from traceql.readers.formats.kineto.flow_ends import END
from traceql.readers.formats.kineto.gathering import Gathered
from traceql.readers.formats.kineto.kineto_json import Batch, Event, KinetoJson
from traceql.readers.formats.kineto.span import Span
from traceql.readers.formats.kineto.streaming.scratch import Scratch
from traceql.readers.formats.kineto.track_numbers import TrackNumbers
from traceql.readers.tables import ACTIVITY, INSTANT, SLICE

_EVENTS = 100_000  # of a section, at least
# Columns of the contract that are known before the tracks and parents are.
_LATER = ("index", "pid", "tid", "parent", "depth")
KNOWN = pa.schema([field_ for field_ in SLICE if field_.name not in _LATER])
POINT = pa.schema([field_ for field_ in INSTANT if field_.name not in _LATER])
NUMBERED_END = pa.schema([("number", pa.int64()), *END])  # numbers in the order of the file
# Slices again, all that their nesting needs: durations are not negative, numbers are their indices.
SPAN = pa.schema([(name, pa.int64()) for name in ("track", "ts", "dur", "number")])


@dataclass
class Sections:
    """What is known of a file when all of it is parsed.

    The tables in `scratch` are slice (columns `KNOWN`), span (`SPAN`), activity, instant (`POINT`)
    and end (`NUMBERED_END`), each with a part for each section. Only span and end are sorted.

    Attributes:
        slices: the number of slices in each section.
        negative: the number of slices with a negative duration.
        first: index and start, ns, of the slice that begins first; of those, the longest.
        about_tracks: the metadata events.
        end_places: the process and thread of each place of an end.
        families: the name and category of each family of flows.
    """

    scratch: Scratch
    slices: list[int] = field(default_factory=list)
    ends: int = 0
    negative: int = 0
    counts: Counts = field(default_factory=Counts)
    tracks: TrackNumbers = field(default_factory=TrackNumbers)
    about_tracks: list[Event] = field(default_factory=list)
    end_places: DistinctValues = field(default_factory=DistinctValues)
    metadata: dict[str, Any] = field(default_factory=dict)
    span: Span = field(default_factory=Span)
    families: DistinctValues = field(default_factory=DistinctValues)
    _first: tuple[int, int, int] | None = None  # start, duration below zero, index

    @property
    def first(self) -> tuple[int, int]:
        ts, _, index = self._first or (0, 0, -1)
        return index, ts

    def number_tracks_of(self, places: Set[int]) -> None:
        """Numbers the tracks of places of flow ends that have none yet, as no slice is there."""
        self.tracks.numbered(list(self.end_places), np.array(sorted(places), np.int64))

    def include(self, other: "Sections") -> None:
        """Takes what is known of the next range of the file; its tables are adopted apart."""
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
        self.scratch.lay_by("slice", pa.table(known, schema=KNOWN))
        span = [slices.track, ts, np.maximum(dur, 0), np.arange(before, before + len(ts))]
        self.scratch.add("span", pa.table(list(map(pa.array, span)), schema=SPAN))
        activity = slices.activity
        later = pa.array(activity["index"].to_numpy() + before)
        self.scratch.lay_by("activity", activity.set_column(0, ACTIVITY.field(0), later))
        point = [points.cat, points.name, pa.array(points.ts), pa.array(points.track), points.args]
        self.scratch.lay_by("instant", pa.table(point, schema=POINT))
        ends = columns.flow_ends.table(self.families, self.end_places)
        numbers = pa.array(np.arange(self.ends, self.ends + len(ends)))
        self.scratch.add("end", ends.add_column(0, NUMBERED_END.field(0), numbers))
        self.span.add(ts, dur, points.ts)
        self.slices.append(len(ts))
        self.ends += len(ends)
        self.negative += int((dur < 0).sum())
        self.counts.add(columns)
        self.about_tracks += columns.about_tracks
        if len(ts):
            first = np.flatnonzero(ts == ts.min())
            at = int(first[np.argmax(np.maximum(dur[first], 0))])
            begun = (int(ts[at]), -max(int(dur[at]), 0), before + at)
            self._first = min(begun, self._first or begun)


def sections(path: Path, scratch: Scratch, texts: Iterable[bytes] | None = None) -> Sections:
    """Parses a file, or the given texts of it, into tables of the scratch.

    Raises:
        TraceCorrupt: it is not a trace, is damaged, or has events without a time. The message does
            not name the file.
    """
    trace = KinetoJson(path, texts)
    found = Sections(scratch)
    for batches in _grouped(trace.scanned()):
        found.add(Gathered(batches, found.tracks))
    found.metadata = trace.metadata
    return found


def _grouped(trace: Iterable[Batch]) -> Iterator[Iterator[Batch]]:
    """The batches of one section after the other; a batch is parsed when it is asked for."""
    batches = iter(trace)
    for first in batches:
        yield _section(first, batches)


def _section(first: Batch, batches: Iterator[Batch]) -> Iterator[Batch]:
    events = len(first)
    yield first
    while events < _EVENTS and (batch := next(batches, None)) is not None:
        events += len(batch)
        yield batch
