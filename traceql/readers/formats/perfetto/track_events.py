"""Counts the slices of a native Perfetto trace in its packets."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from traceql.errors import TraceCorrupt
from traceql.readers.formats.perfetto.packets import packets
from traceql.readers.tables import COUNT
from traceql.readers.unpacked import REMAKE, inflated, require_plausible_size

# Types of track events, and phases of events from the Chrome format.
_BEGINS = {TrackEvent.TYPE_SLICE_BEGIN, "B", "b", "S"}
_SLICES = {*_BEGINS, TrackEvent.TYPE_INSTANT, "X", "i", "I", "R", "n", "T", "p"}
_ENDS = {TrackEvent.TYPE_SLICE_END, "E", "e", "F"}
_WITHOUT_ROWS = {TrackEvent.TYPE_COUNTER, "s", "t", "f", "M"}  # counted otherwise: flows, names
_STATE_CLEARED = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
# Packets without slices in the trace processor; other packets may have some.
_WITHOUT_SLICES = {
    *("clock_snapshot", "cpu_info", "extension_descriptor", "ftrace_stats", "gpu_counter_event"),
    *("module_symbols", "perf_sample", "power_rails", "process_descriptor", "process_stats"),
    *("process_tree", "synchronization_marker", "sys_stats", "system_info", "thread_descriptor"),
    *("trace_config", "trace_stats", "trace_uuid", "track_descriptor"),
}


@dataclass
class TrackEvents:
    """Counts of the packets of a trace."""

    slices: Counter[str] = field(default_factory=Counter)  # by category; "" for none
    begins: int = 0  # slices that another event ends
    ends: int = 0
    early_ends: int = 0  # on tracks where no slice has begun yet
    unread: Counter[str] = field(default_factory=Counter)  # events of no table, by type or phase
    may_have_others: bool = False  # whether other packets may have slices too
    cut_texts: int = 0  # names and categories that the trace processor cuts at a zero byte
    drops: int = 0  # packets that report a loss of earlier packets in their sequence
    render_stages: int = 0  # of GPUs

    @property
    def may_be_of_pytorch(self) -> bool:
        """Whether all events are slices without a category, as PyTorch's recorder writes them."""
        events = self.slices[""]
        is_whole = not (self.may_have_others or self.unread or self.drops)
        return is_whole and 0 < events == self.slices.total() == self.begins == self.ends


def track_events(pieces: Iterable[bytes]) -> TrackEvents:
    """Counts the track events of a trace in pieces of any size.

    Raises:
        TraceCorrupt: the trace is empty or damaged, or ends within a packet; the message does not
            name the file.
    """
    counting = _Counting()
    number = 0
    for number, packet in enumerate(packets(pieces), 1):
        if packet:
            counting.add(number, packet)
    if not number:
        raise TraceCorrupt("empty file; was the process killed before it was written?")
    return counting.found()


class _Categories:
    """The categories of the events of one packet sequence, until its state is cleared.

    Events refer to texts by number; a text may follow the events that refer to it.
    """

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.events: Counter[tuple[tuple[int, ...], tuple[str, ...]]] = Counter()

    def named(self) -> Iterator[tuple[str, int]]:
        """Each category, named as in the trace processor, and its number of events."""
        for (numbers, texts), events in self.events.items():
            if len(numbers) == 1 and not texts:
                yield self.texts.get(numbers[0], f"unknown({numbers[0]})"), events
            else:
                known = (self.texts[n] for n in numbers if n in self.texts)
                yield ",".join([*known, *texts]), events


class _Counting:
    def __init__(self) -> None:
        self._found = TrackEvents()
        self._finished: list[_Categories] = []
        self._current: defaultdict[int, _Categories] = defaultdict(_Categories)  # by sequence
        self._begun: set[int] = set()  # tracks on which a slice has begun
        self._sequences: set[int] = set()  # those with a packet
        self._packed_bytes = self._unpacked_bytes = 0

    def found(self) -> TrackEvents:
        for categories in (*self._finished, *self._current.values()):
            for category, events in categories.named():
                self._found.slices[category] += events
        return self._found

    def add(self, number: int, content: bytes, *, within_another: bool = False) -> None:
        try:
            packet = TracePacket.FromString(content)
        except DecodeError:
            raise TraceCorrupt(f"packet {number} is damaged; {REMAKE}") from None
        sequence = packet.trusted_packet_sequence_id
        if packet.previous_packet_dropped and sequence in self._sequences:
            self._found.drops += 1  # the first packet of a sequence always has the flag
        self._sequences.add(sequence)
        if packet.sequence_flags & _STATE_CLEARED and sequence in self._current:
            self._finished.append(self._current.pop(sequence))
        if packet.HasField("interned_data"):
            texts = self._current[sequence].texts
            categories = packet.interned_data.event_categories
            texts |= {each.iid: _text(each.name) for each in categories}
            for interned in (categories, packet.interned_data.event_names):
                self._note_texts(each.name for each in interned)
        kind = packet.WhichOneof("data")
        if kind == "track_event":
            self._count(packet.track_event, sequence)
        elif kind == "compressed_packets":
            if within_another:
                raise TraceCorrupt(f"packet {number} is compressed twice; {REMAKE}")
            for inner in packets([self._inflated(packet.compressed_packets)]):
                self.add(number, inner, within_another=True)
        elif kind == "zstd_compressed_packets":
            self._found.unread[kind] += 1
        elif kind is None:
            self._found.may_have_others |= len(UnknownFieldSet(packet)) > 0
        else:
            self._found.may_have_others |= kind not in _WITHOUT_SLICES
            self._found.render_stages += kind == "gpu_render_stage_event"

    def _note_texts(self, texts: Iterable[str | bytes]) -> None:
        self._found.cut_texts += sum("\0" in _text(text) for text in texts)

    def _inflated(self, packed: bytes) -> bytes:
        unpacked = inflated(packed)
        self._packed_bytes += len(packed)
        self._unpacked_bytes += len(unpacked)
        require_plausible_size(self._packed_bytes, self._unpacked_bytes)
        return unpacked

    def _count(self, event: TrackEvent, sequence: int) -> None:
        kind: str | int = event.type
        if event.HasField("legacy_event") and event.legacy_event.HasField("phase"):
            kind = chr(event.legacy_event.phase & 0xFF)
        self._note_texts((event.name, *event.categories))
        track = event.track_uuid or -sequence
        if kind in _ENDS:
            self._found.ends += 1
            self._found.early_ends += track not in self._begun
        elif kind in _SLICES:
            if kind in _BEGINS:
                self._found.begins += 1
                self._begun.add(track)
            category = tuple(event.category_iids), tuple(map(_text, event.categories))
            self._current[sequence].events[category] += 1
        elif kind not in _WITHOUT_ROWS:
            self._found.unread[f"track event {kind!r}"] += 1


def _text(given: str | bytes) -> str:
    """A text of a packet, which protobuf gives as bytes if it is not UTF-8."""
    return given if isinstance(given, str) else given.decode(errors="replace")


def count_table(in_file: TrackEvents, cats: pa.ChunkedArray) -> pa.Table:
    """One row per category, and one per kind of unread track event.

    If other packets may have slices, only a category with too few slices has a number. Durations
    are unknown before the trace processor nests the slices.

    Args:
        cats: the category of each slice that was read.
    """
    kept = Counter({row["values"] or "": row["counts"] for row in cats.value_counts().to_pylist()})
    rows: list[tuple[str, str, int | None, int | None]] = []
    for cat in in_file.slices | kept:
        events = in_file.slices[cat]
        is_known = kept[cat] < events or not in_file.may_have_others
        rows.append(("slice", cat, events if is_known else None, None))
    rows += [(kind, "", events, 0) for kind, events in in_file.unread.items()]
    names = ("phase", "cat", "events", "dur")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], COUNT)
