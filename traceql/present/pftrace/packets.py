"""Packets of a Perfetto trace: slices and samples, encoded for a batch of rows at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    DebugAnnotation,
    InternedData,
    Trace,
    TracePacket,
    TrackEvent,
)

from traceql.result.chart.theme import colour
from traceql.util.protobuf_wire import (
    DELIMITED,
    FIXED64,
    VARINT,
    Int64s,
    Mask,
    Octets,
    UInt64s,
    tag,
    varints,
)

_HUES, _DEGREES, _DARKEST = 360, 40, 40
_START, _FACTOR = 18652613, 16777619
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8).astype(np.int64)
_SUFFIX = 3  # letters, which is enough for most pairs of a hue and a lightness
_OWN = {  # without a color in charts
    "severe": "#C62828", "notable": "#D9A400", "even layer": "#3E8E8E", "odd layer": "#7CBDBD",
}  # fmt: skip
_LEAST_CHROMA = 15  # below it, a color counts as grey
_GREY_HUE = 265  # stands for grey, which the UI does not have: a pale blue

_Hashes = npt.NDArray[np.int64]


@cache
def colour_key(text: str) -> str:
    """The text, with a suffix for its color in the palette if it has one there."""
    wanted = _OWN.get(text) or colour(text)
    if wanted is None:
        return text
    hue, lightness = _hue_and_lightness(wanted)
    hashes = np.array([hash_of(f"{text} ")], np.int64)
    for _ in range(_SUFFIX):  # of all suffixes, in alphabetical order
        hashes = _next(hashes[:, None], _LETTERS).ravel()
    hue_off = np.abs((np.abs(hashes) % _HUES - hue + _HUES / 2) % _HUES - _HUES / 2)
    lightness_off = np.abs(np.abs(_next(hashes, ord("x"))) % _DEGREES + _DARKEST - lightness)
    best = int(np.argmin(hue_off + lightness_off))
    places = np.unravel_index(best, (len(_LETTERS),) * _SUFFIX)
    return f"{text} {''.join(chr(_LETTERS[place]) for place in places)}"


def hash_of(text: str) -> int:
    """The UI's hash of a text, before it is reduced to a hue or a lightness."""
    hashes = np.array([_START], np.int64)
    for letter in text:
        hashes = _next(hashes, ord(letter))
    return int(hashes[0])


def _next(hashes: _Hashes, letters: _Hashes | int) -> _Hashes:
    """The hashes after one more letter, by JavaScript's arithmetic: a float, cut to 32 bits."""
    product = (hashes ^ letters).astype(np.float64) * float(_FACTOR)
    return product.astype(np.int64).astype(np.int32).astype(np.int64)


def _hue_and_lightness(hexadecimal: str) -> tuple[float, float]:
    """Degrees and percent of an sRGB color in CIELUV, on which HSLuv is based."""
    channels = np.array([int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(channels > 0.04045, ((channels + 0.055) / 1.055) ** 2.4, channels / 12.92)
    x, y, z = _TO_XYZ @ linear
    lightness = 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y
    total = x + 15 * y + 3 * z
    u = 13 * lightness * (4 * x / total - _WHITE_U)
    v = 13 * lightness * (9 * y / total - _WHITE_V)
    hue = np.degrees(np.arctan2(v, u)) % 360 if np.hypot(u, v) > _LEAST_CHROMA else _GREY_HUE
    return float(hue), float(lightness)


# sRGB with the white point D65.
_TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # fmt: skip
_WHITE_U, _WHITE_V = 0.19784, 0.46834


@dataclass(frozen=True)
class Fields:
    """Fields of every message.

    Attributes:
        parts: that follow each other: the bytes, a row per message, and which of them are used.
        sizes: the used bytes of each message.
    """

    parts: Sequence[tuple[Octets, Mask]]
    sizes: UInt64s

    def where(self, rows: Mask) -> "Fields":
        """The same fields in the selected rows; the others are empty."""
        parts = [(octets, used & rows[:, None]) for octets, used in self.parts]
        return Fields(parts, self.sizes * rows)

    def to_bytes(self) -> bytes:
        """The bytes of all rows, one row after the other."""
        octets, used = (np.concatenate(each, axis=1) for each in zip(*self.parts, strict=True))
        return bytes(octets[used])


def constant(rows: int, content: bytes) -> Fields:
    """The same bytes in every row."""
    octets = np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))
    used = np.broadcast_to(True, octets.shape)
    return Fields([(octets, used)], np.full(rows, len(content), np.uint64))


def varint_field(number: int, content: UInt64s) -> Fields:
    return _tagged(number, VARINT, _varints(content))


def fixed64_field(number: int, content: npt.NDArray[np.generic]) -> Fields:
    """A fixed64 or double field, from 64-bit integers or floats."""
    octets = content.astype(content.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 8)
    used = np.broadcast_to(True, octets.shape)
    return _tagged(number, FIXED64, Fields([(octets, used)], np.full(len(content), 8, np.uint64)))


def text_field(number: int, texts: pa.Array) -> Fields:
    """A string field; empty for NULL."""
    texts = texts.cast(pa.large_string()).fill_null("")
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    sizes = np.diff(offsets)
    used = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    octets = np.zeros(used.shape, np.uint8)
    if data is not None:
        octets[used] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return message_field(number, Fields([(octets, used)], sizes.astype(np.uint64)))


def message_field(number: int, *fields: Fields) -> Fields:
    """A field whose content is a message with these fields."""
    content = _concatenated(*fields)
    return _tagged(number, DELIMITED, _varints(content.sizes), content)


def _tagged(number: int, wire_type: int, *content: Fields) -> Fields:
    return _concatenated(constant(len(content[0].sizes), tag(number, wire_type)), *content)


def _concatenated(*fields: Fields) -> Fields:
    sizes = fields[0].sizes.copy()
    for each in fields[1:]:
        sizes += each.sizes
    return Fields([part for each in fields for part in each.parts], sizes)


def _varints(numbers: UInt64s) -> Fields:
    octets, used = varints(numbers)
    return Fields([(octets, used)], used.sum(axis=1, dtype=np.uint64))


_SEQUENCE = 1
_IN_SEQUENCE = TracePacket(
    trusted_packet_sequence_id=_SEQUENCE, sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
).SerializeToString()
# Kinds of interned text: fields of InternedData.
_EVENT_CATEGORY, _EVENT_NAME = "event_categories", "event_names"
_ANNOTATION_NAME, _ANNOTATION_TEXT = "debug_annotation_names", "debug_annotation_string_values"
_COLOUR = "correlation_id_str"
_OF_BYTES = {_ANNOTATION_TEXT, _COLOUR}  # written as InternedString, the others with a name
_STANDARD = {"rank", "track", "ts", "dur", "cat", "name", "colour", "flow_out", "flow_in", "flow"}
_UNIQUE = "sql"  # different in every row, so it is not interned
_Legacy = TrackEvent.LegacyEvent
_CHAIN_OFFSET = 1 << 62  # added to numbers of `flow`, which must differ from those of `flow_out`


class Interning:
    """The numbers of all texts so far. A new text must be written before packets refer to it."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._new = InternedData()

    def number(self, kind: str, text: str) -> int:
        """The number of a text, from 1. The same text of two kinds has two numbers."""
        found = self._numbers.get((kind, text))
        if found is None:
            found = self._numbers[kind, text] = len(self._numbers) + 1
            entry = getattr(self._new, kind).add(iid=found)
            if kind in _OF_BYTES:
                entry.str = text.encode()
            else:
                entry.name = text
        return found

    def numbers(self, kind: str, texts: pa.Array) -> UInt64s:
        """The number of each text; 0 for NULL."""
        encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        of_each = [self.number(kind, text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(len(of_each)).to_numpy(zero_copy_only=False)
        found: UInt64s = np.array([*of_each, 0], np.uint64)[indices]
        return found

    def take_new(self) -> bytes:
        """The packet of the texts that are new since the last call; empty if there are none."""
        new, self._new = self._new, InternedData()
        if not new.ByteSize():
            return b""
        return one_packet(interned_data=new, sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)


def one_packet(**content: object) -> bytes:
    """A packet that is not an event: a track, or interned texts."""
    packet = TracePacket(trusted_packet_sequence_id=_SEQUENCE, **content)
    return bytes(Trace(packet=[packet]).SerializeToString())


def begin_packets(rows: pa.RecordBatch, track: Int64s, interning: Interning) -> bytes:
    """The start of each slice; a slice without a duration becomes an instant.

    Columns: `ts`, `dur`, `cat`, `name`; `colour` (see colours; without it, slices with the same
    name have the same color); `flow_out`, `flow_in` and `flow` (see _flows). Every other column
    becomes an annotation.
    """
    lasts = integers(rows["dur"]) > 0
    kind = np.where(lasts, TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_INSTANT)
    category = interning.numbers(_EVENT_CATEGORY, rows["cat"])
    name = interning.numbers(_EVENT_NAME, rows["name"])
    others = [column for column in rows.schema.names if column not in _STANDARD]
    return _timed_packets(
        integers(rows["ts"]),
        varint_field(TrackEvent.TYPE_FIELD_NUMBER, kind.astype(np.uint64)),
        _on(track),
        _interned(TrackEvent.CATEGORY_IIDS_FIELD_NUMBER, category),
        _interned(TrackEvent.NAME_IID_FIELD_NUMBER, name),
        *_colours(rows, interning),
        *_flows(rows),
        *(_annotation(column, rows[column], interning) for column in others),
    )


def end_packets(end_ts: Int64s, track: Int64s) -> bytes:
    return _timed_packets(end_ts, _constant_type(track, TrackEvent.TYPE_SLICE_END), _on(track))


def counter_packets(rows: pa.RecordBatch, track: Int64s) -> bytes:
    """One sample per row, from the columns `ts` and `value`."""
    value = rows["value"].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return _timed_packets(
        integers(rows["ts"]),
        _constant_type(track, TrackEvent.TYPE_COUNTER),
        _on(track),
        fixed64_field(TrackEvent.DOUBLE_COUNTER_VALUE_FIELD_NUMBER, value),
    )


def integers(column: pa.Array) -> Int64s:
    """The values, with 0 for NULL."""
    found: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _timed_packets(ts: Int64s, *event: Fields) -> bytes:
    packets = message_field(
        Trace.PACKET_FIELD_NUMBER,
        varint_field(TracePacket.TIMESTAMP_FIELD_NUMBER, ts.astype(np.uint64)),
        constant(len(ts), _IN_SEQUENCE),
        message_field(TracePacket.TRACK_EVENT_FIELD_NUMBER, *event),
    )
    return packets.to_bytes()


def _constant_type(track: Int64s, kind: int) -> Fields:
    return constant(len(track), bytes(TrackEvent(type=kind).SerializeToString()))


def _on(track: Int64s) -> Fields:
    return varint_field(TrackEvent.TRACK_UUID_FIELD_NUMBER, track.astype(np.uint64))


def _interned(field: int, numbers: UInt64s) -> Fields:
    """Texts as their numbers; no field for NULL."""
    return varint_field(field, numbers).where(numbers > 0)


def _colours(rows: pa.RecordBatch, interning: Interning) -> Iterator[Fields]:
    if "colour" in rows.schema.names:
        things = rows["colour"].dictionary_encode()
        keys = pa.array([thing and colour_key(thing) for thing in things.dictionary.to_pylist()])
        texts = pa.DictionaryArray.from_arrays(things.indices, keys.cast(pa.string()))
        field = TrackEvent.CORRELATION_ID_STR_IID_FIELD_NUMBER
        yield _interned(field, interning.numbers(_COLOUR, texts))


def _annotation(name: str, column: pa.Array, interning: Interning) -> Fields:
    """A value that the viewer shows when a slice is selected; none for NULL."""
    number = interning.number(_ANNOTATION_NAME, name)
    named = DebugAnnotation(name_iid=number).SerializeToString()
    if name == _UNIQUE:
        value = text_field(DebugAnnotation.STRING_VALUE_FIELD_NUMBER, column)
    elif pa.types.is_string(column.type):
        texts = interning.numbers(_ANNOTATION_TEXT, column)
        value = varint_field(DebugAnnotation.STRING_VALUE_IID_FIELD_NUMBER, texts)
    elif pa.types.is_floating(column.type):
        floats = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        value = fixed64_field(DebugAnnotation.DOUBLE_VALUE_FIELD_NUMBER, floats)
    else:
        numbers = integers(column).astype(np.uint64)
        value = varint_field(DebugAnnotation.INT_VALUE_FIELD_NUMBER, numbers)
    field = TrackEvent.DEBUG_ANNOTATIONS_FIELD_NUMBER
    return message_field(field, constant(len(column), named), value).where(_is_valid(column))


def _flows(rows: pa.RecordBatch) -> Iterator[Fields]:
    """Arrows between slices, from the columns `flow_out`, `flow_in` and `flow`.

    An arrow leads from a slice with `flow_out` to each slice that has the same number in
    `flow_in`. Only this older form of Perfetto's flows can fan out, for example from a graph
    launch to all its kernels. Slices with the same `flow` form a chain in the order of their
    starts.
    """
    names = rows.schema.names
    for name, direction in (("flow_out", _Legacy.FLOW_OUT), ("flow_in", _Legacy.FLOW_IN)):
        if name in names:
            flow = message_field(
                TrackEvent.LEGACY_EVENT_FIELD_NUMBER,
                varint_field(_Legacy.BIND_ID_FIELD_NUMBER, _flow_numbers(rows[name])),
                constant(len(rows), _Legacy(flow_direction=direction).SerializeToString()),
            )
            yield flow.where(_is_valid(rows[name]))
    if "flow" in names:
        numbers = _flow_numbers(rows["flow"]) + np.uint64(_CHAIN_OFFSET)
        chain = fixed64_field(TrackEvent.FLOW_IDS_FIELD_NUMBER, numbers)
        yield chain.where(_is_valid(rows["flow"]))


def _flow_numbers(column: pa.Array) -> UInt64s:
    """The numbers plus 1, because 0 means "no flow" in Perfetto."""
    return integers(column).astype(np.uint64) + np.uint64(1)


def _is_valid(column: pa.Array) -> Mask:
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
