"""Collects events into columns, numbers tracks, and pairs the ends of flows."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.arguments import (
    Texts,
    activity_table,
    decoded,
    int64_column,
    text_column,
)
from traceql.readers.device_activities import is_launch_category, is_on_host, may_be_activity
from traceql.readers.dialects.pytorch.vocabulary import Argument
from traceql.readers.dictionary_codes import DistinctValues, Recoding, concatenated, distinct_rows
from traceql.readers.flows import Flows
from traceql.readers.formats.kineto.kineto_json import ABSENT, Batch, Event, Raw, event_in
from traceql.readers.formats.kineto.pairs import BORDERS, complete_events, own_copy
from traceql.readers.formats.kineto.samples import SAMPLE, Samples
from traceql.readers.formats.kineto.scanner import (
    Scanned,
    ScannedEnds,
    ScannedSlices,
    number_column,
    scanned_activities,
)
from traceql.readers.formats.kineto.times import Int64s, counted_ns, counted_ns_of_list, nanoseconds
from traceql.readers.tables import ACTIVITY
from traceql.readers.timeline import (
    COMPLETE,
    FLOW_ENDS,
    FLOW_FINISHES,
    INSTANTS,
    METADATA,
    Timeline,
    point_timeline,
)
from traceql.readers.tracks import Track

_ZERO_TEXT = Raw(b"0")
_NO_DURATION = {b"", b"null"}


def times(events: Sequence[Event]) -> Int64s:
    """The start of each event, ns.

    Raises:
        TraceCorrupt: an event has no time, or a time that does not fit 64 bits.
    """
    try:
        return nanoseconds([e.ts for e in events])
    except TraceCorrupt:
        for event in events:
            if event.ts is ABSENT:
                name = str(event.name)[:60]
                raise TraceCorrupt(f'event "{name}" has no "ts"; the trace is damaged') from None
        raise


def durations(texts: Sequence[Raw]) -> Int64s:
    """The duration of each event, ns; 0 if the file has none."""
    try:
        return nanoseconds(texts)
    except TraceCorrupt:
        return nanoseconds([_ZERO_TEXT if bytes(t) in _NO_DURATION else t for t in texts])


# Metadata events by name, with the argument that has the value.
_PROCESS = {"process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index"}
_THREAD = {"thread_name": "name", "thread_sort_index": "sort_index"}


class TrackNumbers:
    """Numbers the (pid, tid) pairs of a file: 0, 1, 2, ... in the order of first use."""

    def __init__(self) -> None:
        self._numbers = DistinctValues()

    def of(self, events: Sequence[Event]) -> Int64s:
        """The track of each event; new pairs get the next numbers."""
        return self._numbers.of([(e.pid, e.tid) for e in events])

    def recoding(self) -> Recoding:
        """Maps codes of pairs in another list to tracks."""
        return Recoding(self._numbers)

    def numbered(self, pairs: Sequence[tuple[Any, Any]], codes: Int64s) -> Int64s:
        """The track of each pair, given as a position in `pairs`; unused pairs get no track."""
        distinct, place = np.unique(codes, return_inverse=True)
        return self._numbers.of([pairs[code] for code in distinct.tolist()])[place]

    def placed(self, samples: pa.Table, places: DistinctValues) -> pa.Table:
        """Samples of counters whose column `track` is a number in `places`, on their tracks."""
        track = self._numbers.of(list(places))[samples["track"].to_numpy()]
        at = samples.schema.get_field_index("track")
        return samples.set_column(at, samples.schema.field(at), pa.array(track))

    def merged(self, others: "TrackNumbers") -> Int64s:
        """The number here of each track of another part of the file; new tracks are added."""
        return self._numbers.of(list(others._numbers))

    def known(self, pairs: Sequence[tuple[Any, Any]]) -> Int64s:
        """The track of each pair; -1 for pairs without one."""
        return np.array([self._numbers.get(pair, -1) for pair in pairs], np.int64)

    def pids(self, numbers: Iterable[int]) -> set[Any]:
        """The processes of tracks."""
        pairs = list(self._numbers)
        return {pairs[number][0] for number in numbers}

    def so_far(self, metadata: Sequence[Event]) -> list[Track]:
        """The same as `named`, of which only a copy numbers tracks without events."""
        copy = TrackNumbers()
        copy._numbers.update(self._numbers)
        return copy.named(metadata)

    def named(self, metadata: Sequence[Event]) -> list[Track]:
        """All tracks by number, with their names; tracks with a name but no events are included."""
        processes: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        threads: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for event in metadata:
            if event.name in _PROCESS:
                processes[event.pid][str(event.name)] = _argument(event, _PROCESS)
            elif event.name in _THREAD:
                threads[event.pid, event.tid][str(event.name)] = _argument(event, _THREAD)
        for pair in threads:
            self._numbers.setdefault(pair, len(self._numbers))
        for pid in processes.keys() - {pid for pid, _ in self._numbers}:
            self._numbers[pid, None] = len(self._numbers)
        about = ((pid, tid, processes[pid], threads[pid, tid]) for pid, tid in self._numbers)
        return [
            Track(
                *(pid, tid, process.get("process_name"), thread.get("thread_name")),
                *(process.get("process_labels"), process.get("process_sort_index")),
                thread.get("thread_sort_index"),
            )
            for pid, tid, process, thread in about
        ]


def unread(metadata: Sequence[Event]) -> int:
    """The number of metadata events that are not in any column."""
    return sum(e.name not in _PROCESS and e.name not in _THREAD for e in metadata)


def _argument(event: Event, names: Mapping[str, str]) -> Any:
    try:
        return json.loads(bytes(event.args))[names[str(event.name)]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


END = pa.schema(
    [
        ("ts", pa.int64()),  # ns
        ("phase", pa.int64()),  # index in FLOW_ENDS
        ("is_late", pa.bool_()),  # whether it is bound to the next slice
        ("family", pa.int64()),  # number of the name and category of its flow
        ("id", pa.binary()),  # of its flow, as in the file
        ("place", pa.int64()),  # number of the process and thread
    ]
)


class FlowEnds:
    """Collects the ends of flows, batch by batch."""

    def __init__(self, tracks: TrackNumbers) -> None:
        self._tracks = tracks
        self._kinds, self._ids, self._places = DistinctValues(), DistinctValues(), DistinctValues()
        self._kind: list[Int64s] = []
        self._id: list[Int64s] = []
        self._ts: list[Int64s] = []
        self._place: list[Int64s] = []
        self._scanned_places = Recoding(self._places)

    def add(self, events: Sequence[Event]) -> None:
        """Appends ends; ids are equal if their text in the file is equal."""
        self._kind.append(self._kinds.of([(e.ph, e.name, e.cat, e.bp) for e in events]))
        self._id.append(self._ids.of([bytes(e.id or _ZERO_TEXT) for e in events]))
        self._ts.append(times(events))
        self._place.append(self._places.of([(e.pid, e.tid) for e in events]))

    def add_scanned(self, ends: ScannedEnds) -> None:
        described = (ends.phase, ends.name, ends.cat, ends.binding)
        rows, place = distinct_rows([one.codes for one in described])
        kinds = [
            tuple(one.values[code] for one, code in zip(described, row, strict=True))
            for row in rows
        ]
        self._kind.append(Recoding(self._kinds).of(kinds, place))
        self._id.append(self._ids.of(ends.id))
        self._ts.append(ends.ts)
        self._place.append(self._scanned_places.of(ends.place.values, ends.place.codes))

    def table(self, families: DistinctValues, places: DistinctValues) -> pa.Table:
        """The ends in the order of the file, with the columns of `END`.

        Args:
            families: numbers the names and categories of flows in all sections of a file.
            places: numbers the processes and threads of ends in all sections.
        """
        kind, kinds = concatenated(self._kind), list(self._kinds)
        phase = np.array([FLOW_ENDS.index(phase) for phase, *_ in kinds], np.int64)
        is_late = np.array([phase == FLOW_FINISHES and bp != "e" for phase, *_, bp in kinds], bool)
        family = families.of([(name, cat) for _, name, cat, _ in kinds])
        ids = pa.array(list(self._ids), pa.binary())
        of_columns = [
            pa.array(concatenated(self._ts)),
            pa.array(phase[kind]),
            pa.array(is_late[kind]),
            pa.array(family[kind]),
            ids.take(pa.array(concatenated(self._id))),
            pa.array(places.of(list(self._places))[concatenated(self._place)]),
        ]
        return pa.table(of_columns, schema=END)

    def flows(self, slices: Timeline) -> Flows:
        """All flows that begin; the profiler also writes ends of flows without a begin."""
        kinds, kind = list(self._kinds), concatenated(self._kind)
        phase = np.array([FLOW_ENDS.index(phase) for phase, *_ in kinds], np.int64)[kind]
        # A flow is identified by name, category and id.
        families = DistinctValues()
        family = families.of([(name, cat) for _, name, cat, _ in kinds])
        number = concatenated(self._id)
        if len(families) > 1:  # dense numbers, because arrays are as long as the largest number
            key = number * len(families) + family[kind]
            number = np.unique(key, return_inverse=True)[1]
        begun = np.isin(number, number[phase == 0])
        order = np.argsort(phase, kind="stable")
        kept = order[begun[order]]
        track = self._tracks.numbered(list(self._places), concatenated(self._place)[kept])
        ends = point_timeline(concatenated(self._ts)[kept], track, slices)
        return Flows(ends, kinds, kind[kept], number[kept])


def _is_empty(event: Event) -> bool:
    """Whether an event is {}, which JAX writes behind the last one."""
    return not event.ph and not event.name and event.ts is ABSENT and event.args is ABSENT


class Gathered:
    """The slices, instants, flow ends and samples of a file or a section, in columns.

    Args:
        tracks: the numbers of tracks in earlier sections.

    Attributes:
        borders: begins and ends of slices, for `add_pairs` once all of the file is there.
        pairs: how many slices they made.
    """

    def __init__(self, batches: Iterable[Batch], tracks: TrackNumbers | None = None) -> None:
        self.phases: Counter[str] = Counter()
        self.tracks = TrackNumbers() if tracks is None else tracks
        self.slices = SliceColumns(self.tracks)
        self.instants = EventColumns(self.tracks)
        self.flow_ends = FlowEnds(self.tracks)
        self.samples = Samples()
        self.borders: list[Event] = []
        self.pairs = 0
        self.about_tracks: list[Event] = []  # metadata events
        self._scanned_tracks = self.tracks.recoding()
        for batch in batches:
            if isinstance(batch, Scanned):
                self._add_scanned(batch)
            else:
                self.add(batch)

    def _add_scanned(self, batch: Scanned) -> None:
        # All tracks are numbered first, in the order of the file.
        self._scanned_tracks.of(batch.tracks, np.arange(len(batch.tracks)))
        if len(batch.slices):
            self.slices.add_scanned(batch.slices, self._scanned_tracks)
            self.phases[COMPLETE] += len(batch.slices)
        if len(batch.ends):
            self.flow_ends.add_scanned(batch.ends)
            self.phases.update(batch.ends.phases())
        if batch.others:
            self.add([event_in(text) for text in batch.others])

    def add(self, events: Sequence[Event]) -> None:
        """Appends events."""
        complete = [event for event in events if event.ph == COMPLETE]  # most events
        others = [e for e in events if e.ph != COMPLETE and not _is_empty(e)]
        points = [event for event in others if event.ph in INSTANTS]
        ends = [event for event in others if event.ph in FLOW_ENDS]
        if points:  # tracks are numbered in the order of the file, independently of batches
            self.tracks.of([e for e in events if e.ph == COMPLETE or e.ph in INSTANTS])
        if complete:
            self.slices.add(complete)
        if points:
            self.instants.add(points)
        if ends:
            self.flow_ends.add(ends)
        phases = Counter(event.ph for event in others)
        if SAMPLE in phases:
            self.samples.add([event for event in others if event.ph == SAMPLE])
        if not BORDERS.isdisjoint(phases):
            self.borders += [own_copy(event) for event in others if event.ph in BORDERS]
        self.phases.update(phases)
        self.phases[COMPLETE] += len(complete)
        self.about_tracks += [event for event in others if event.ph == METADATA]

    def add_pairs(self, borders: Sequence[Event]) -> None:
        """Adds a slice for each pair of a begin and an end."""
        if not borders:
            return
        found = complete_events(borders)
        self.add(found)
        self.pairs += len(found)


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
        self._gpu_cats: list[int] = []  # codes of the categories of possible activities
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
        self._name.append(self._scanned_names.of(slices.name.values, slices.name.codes))
        self._cat.append(self._scanned_cats.of(slices.cat.values, slices.cat.codes))
        self._track.append(tracks.of(slices.track.values, slices.track.codes))
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
        """The positions of possible activities of a device in the last batch.

        Only new categories are checked: a file may have as many categories as events.
        """
        new = len(self._cats) - self._cats_seen
        for code, cat in zip(count(len(self._cats) - 1, -1), islice(reversed(self._cats), new)):
            if may_be_activity(cat):
                self._gpu_cats.append(code)
        self._cats_seen += new
        return np.flatnonzero(np.isin(self._cat[-1], self._gpu_cats))

    def host_pids(self) -> set[Any]:
        """The processes that have events of the host, such as operators."""
        host = [code for code, cat in enumerate(self._cats) if is_on_host(cat)]
        found = np.bincount(self.track[np.isin(concatenated(self._cat), host)])
        return self._tracks.pids(np.flatnonzero(found).tolist())

    @property
    def dur(self) -> Int64s:
        """Durations, ns; 0 if the file has none."""
        return concatenated(self._dur)

    @property
    def counted_dur(self) -> Int64s:
        """The durations as the ledger counts them (see counted_ns)."""
        return concatenated(self._counted_dur)

    @property
    def external_id(self) -> pa.Array:
        return pa.chunked_array(self._external_id, pa.int64()).combine_chunks()

    @property
    def correlation(self) -> pa.Array:
        return pa.chunked_array(self._correlation, pa.int64()).combine_chunks()

    @property
    def activity(self) -> pa.Table:
        """One row per event that may be an activity (see device_activities.py)."""
        return pa.concat_tables(self._activity).combine_chunks()

    @property
    def launching(self) -> set[int]:
        """The tracks with calls of the runtime or driver."""
        is_launch = np.array([is_launch_category(cat) for cat in self._cats], np.bool_)
        return _used(self.track[is_launch[concatenated(self._cat)]])

    @property
    def active(self) -> set[int]:
        """The tracks with events that may be activities."""
        return _used(self.track[self.activity["index"].to_numpy()])


def _used(track: Int64s) -> set[int]:
    return set(np.flatnonzero(np.bincount(track)).tolist())


def _dictionary(distinct: DistinctValues, codes: Sequence[Int64s]) -> pa.DictionaryArray:
    """A dictionary-encoded column of texts; other values are converted to text."""
    return pa.DictionaryArray.from_arrays(
        concatenated(codes).astype(np.int32), text_column(distinct)
    )
