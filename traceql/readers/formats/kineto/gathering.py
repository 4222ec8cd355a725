"""Collects events into columns, batch by batch, while the CPU's cache still holds the batch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.activities import activity_table, is_on_gpu
from traceql.readers.arguments import Texts, decoded, int64_column, text_column
from traceql.readers.coded import DistinctValues, Recoding, concatenated
from traceql.readers.dialects.pytorch.vocabulary import Argument
from traceql.readers.formats.kineto.counted_ns import counted_ns, counted_ns_of_list
from traceql.readers.formats.kineto.event_times import durations, times
from traceql.readers.formats.kineto.flow_ends import FlowEnds
from traceql.readers.formats.kineto.kineto_json import Batch, Event, event_in
from traceql.readers.formats.kineto.scan import Coded, Scanned, ScannedSlices
from traceql.readers.formats.kineto.scan.activities import number_column, scanned_activities
from traceql.readers.formats.kineto.track_numbers import TrackNumbers
from traceql.readers.phases import COMPLETE, FLOW_ENDS, INSTANTS, METADATA
from traceql.readers.tables import ACTIVITY

Int64s = npt.NDArray[np.int64]


class Gathered:
    """Events of a file: slices, instants and flow ends each in their own columns.

    Args:
        batches: all events, or those of a section of the file.
        tracks: numbers the tracks, also those of the sections before.
    """

    def __init__(self, batches: Iterable[Batch], tracks: TrackNumbers | None = None) -> None:
        self.phases: Counter[str] = Counter()
        self.tracks = TrackNumbers() if tracks is None else tracks
        self.slices = SliceColumns(self.tracks)
        self.instants = EventColumns(self.tracks)
        self.flow_ends = FlowEnds(self.tracks)
        self.about_tracks: list[Event] = []  # metadata events
        self._scanned_tracks = self.tracks.recoding()
        for batch in batches:
            if isinstance(batch, Scanned):
                self._add_scanned(batch)
            else:
                self._add(batch)

    def _add_scanned(self, batch: Scanned) -> None:
        # All tracks are numbered first, which is in the order of the file.
        self._scanned_tracks.of(batch.tracks, np.arange(len(batch.tracks)))
        if len(batch.slices):
            self.slices.add_scanned(batch.slices, self._scanned_tracks)
            self.phases[COMPLETE] += len(batch.slices)
        if len(batch.ends):
            self.flow_ends.add_scanned(batch.ends)
            self.phases.update(batch.ends.phases())
        if batch.others:
            self._add([event_in(text) for text in batch.others])

    def _add(self, events: Sequence[Event]) -> None:
        complete: list[Event] = []  # most events
        others: list[Event] = []
        for event in events:
            (complete if event.ph == COMPLETE else others).append(event)
        points = [event for event in others if event.ph in INSTANTS]
        ends = [event for event in others if event.ph in FLOW_ENDS]
        if points:  # tracks are numbered in the order of the file, however it is cut into batches
            self.tracks.of([e for e in events if e.ph == COMPLETE or e.ph in INSTANTS])
        if complete:
            self.slices.add(complete)
        if points:
            self.instants.add(points)
        if ends:
            self.flow_ends.add(ends)
        self.phases.update(Counter(event.ph for event in others))
        self.phases[COMPLETE] += len(complete)
        self.about_tracks += [event for event in others if event.ph == METADATA]


class EventColumns:
    """Columns of events: name, category, start, track and arguments."""

    def __init__(self, tracks: TrackNumbers) -> None:
        self._tracks = tracks
        self._names, self._cats = DistinctValues(), DistinctValues()
        self._name: list[Int64s] = []
        self._cat: list[Int64s] = []
        self._ts: list[Int64s] = []
        self._track: list[Int64s] = []
        self._args = Texts()

    def add(self, events: Sequence[Event]) -> None:
        """Appends events, in the order of the file."""
        self._add_places(events)
        self._args.add([e.args for e in events])

    def _add_places(self, events: Sequence[Event]) -> None:
        self._name.append(self._names.of([e.name for e in events]))
        self._cat.append(self._cats.of([e.cat for e in events]))
        self._ts.append(times(events))
        self._track.append(self._tracks.of(events))

    @property
    def ts(self) -> Int64s:
        """Starts in the file's own time, ns."""
        return concatenated(self._ts)

    @property
    def track(self) -> Int64s:
        return concatenated(self._track)

    @property
    def name(self) -> pa.DictionaryArray:
        return _dictionary(self._names, self._name)

    @property
    def cat(self) -> pa.DictionaryArray:
        return _dictionary(self._cats, self._cat)

    @property
    def args(self) -> pa.Array:
        """The arguments as JSON text."""
        return self._args.json_column()


class SliceColumns(EventColumns):
    """Columns of complete events, which also have a duration and typed arguments."""

    def __init__(self, tracks: TrackNumbers) -> None:
        super().__init__(tracks)
        self._dur: list[Int64s] = []
        self._counted_dur: list[Int64s] = []
        self._external_id: list[pa.Array] = []
        self._correlation: list[pa.Array] = []
        self._activity = [ACTIVITY.empty_table()]
        self._scanned_names, self._scanned_cats = Recoding(self._names), Recoding(self._cats)
        self._added = 0
        self._gpu_cats: list[int] = []  # codes of the categories of GPU activities
        self._cats_seen = 0

    def add(self, events: Sequence[Event]) -> None:
        self._add_places(events)
        texts = [e.dur for e in events]
        self._dur.append(durations(texts))
        self._counted_dur.append(counted_ns(texts))
        arguments = decoded(*self._args.add([e.args for e in events]))
        self._external_id.append(int64_column([a.external_id for a in arguments]))
        self._correlation.append(int64_column([a.correlation for a in arguments]))
        on_gpu = self._on_gpu()
        if len(on_gpu):
            self._activity.append(activity_table(on_gpu, arguments, self._added))
        self._added += len(events)

    def add_scanned(self, slices: ScannedSlices, tracks: Recoding) -> None:
        """Appends slices, as `add` does."""
        self._name.append(_codes(slices.name, self._scanned_names))
        self._cat.append(_codes(slices.cat, self._scanned_cats))
        self._track.append(_codes(slices.track, tracks))
        self._ts.append(slices.ts)
        self._dur.append(slices.dur)
        self._counted_dur.append(counted_ns_of_list(slices.dur_texts))
        self._args.extend(slices.args, slices.args_sizes)
        every = slice(None)
        self._external_id.append(number_column(slices, Argument.EXTERNAL_ID, every))
        self._correlation.append(number_column(slices, Argument.CORRELATION, every))
        on_gpu = self._on_gpu()
        if len(on_gpu):
            self._activity.append(scanned_activities(slices, on_gpu, self._added))
        self._added += len(slices)

    def _on_gpu(self) -> Int64s:
        """The positions of the GPU activities of the last batch.

        Only categories that are new are looked at: a file may have as many of them as events.
        """
        new = len(self._cats) - self._cats_seen
        for code, cat in zip(count(len(self._cats) - 1, -1), islice(reversed(self._cats), new)):
            if is_on_gpu(cat):
                self._gpu_cats.append(code)
        self._cats_seen += new
        return np.flatnonzero(np.isin(self._cat[-1], self._gpu_cats))

    @property
    def dur(self) -> Int64s:
        """Durations, ns; 0 if the file has none."""
        return concatenated(self._dur)

    @property
    def counted_dur(self) -> Int64s:
        """The same durations as the ledger counts them (see counted_ns)."""
        return concatenated(self._counted_dur)

    @property
    def external_id(self) -> pa.Array:
        return pa.chunked_array(self._external_id, pa.int64()).combine_chunks()

    @property
    def correlation(self) -> pa.Array:
        return pa.chunked_array(self._correlation, pa.int64()).combine_chunks()

    @property
    def activity(self) -> pa.Table:
        """One row per GPU activity."""
        return pa.concat_tables(self._activity).combine_chunks()


def _codes(column: Coded, recoding: Recoding) -> Int64s:
    return recoding.of(column.values, column.codes)


def _dictionary(distinct: DistinctValues, codes: Sequence[Int64s]) -> pa.DictionaryArray:
    """A dictionary-encoded column of texts; other values are converted to text."""
    return pa.DictionaryArray.from_arrays(
        concatenated(codes).astype(np.int32), text_column(distinct)
    )
