"""Packets of a Perfetto trace, made for a batch of rows at once."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from traceql.present.pftrace.annotations import annotation_fields
from traceql.present.pftrace.colours import colour_key
from traceql.present.pftrace.flows import flow_fields
from traceql.present.pftrace.interning import COLOUR, EVENT_CATEGORY, EVENT_NAME, Interning
from traceql.present.pftrace.octets import Fields, constant, fixed64_field, message, varint_field

Int64s = npt.NDArray[np.int64]

_SEQUENCE = 1
_COLOUR_FIELD = TrackEvent.CORRELATION_ID_STR_IID_FIELD_NUMBER
_STANDARD = {"rank", "track", "ts", "dur", "cat", "name", "colour", "flow_out", "flow_in", "flow"}


def one_packet(**content: object) -> bytes:
    """A single packet that is not an event: a track, or interned texts."""
    packet = TracePacket(trusted_packet_sequence_id=_SEQUENCE, **content)
    return bytes(Trace(packet=[packet]).SerializeToString())


def begin_packets(rows: pa.RecordBatch, track: Int64s, interning: Interning) -> bytes:
    """The start of each slice; a slice without a duration becomes an instant.

    Columns: `ts`, `dur`, `cat`, `name`; `colour` (what the color stands for, see colours; without
    it, slices with the same name have the same color); `flow_out`, `flow_in` and `flow` (see
    flows). Every other column becomes an annotation.
    """
    lasts = integers(rows["dur"]) > 0
    kind = np.where(lasts, TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_INSTANT)
    annotations = {name: rows[name] for name in rows.schema.names if name not in _STANDARD}
    return _timed_packets(
        integers(rows["ts"]),
        varint_field(TrackEvent.TYPE_FIELD_NUMBER, kind.astype(np.uint64)),
        _on(track),
        _interned(TrackEvent.CATEGORY_IIDS_FIELD_NUMBER, interning, EVENT_CATEGORY, rows["cat"]),
        _interned(TrackEvent.NAME_IID_FIELD_NUMBER, interning, EVENT_NAME, rows["name"]),
        *_colours(rows, interning),
        *flow_fields(rows),
        *annotation_fields(annotations, interning),
    )


def end_packets(end_ts: Int64s, track: Int64s) -> bytes:
    kind = constant(len(end_ts), _type(TrackEvent.TYPE_SLICE_END))
    return _timed_packets(end_ts, kind, _on(track))


def counter_packets(rows: pa.RecordBatch, track: Int64s) -> bytes:
    """One sample per row, from the columns `ts` and `value`."""
    value = rows["value"].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return _timed_packets(
        integers(rows["ts"]),
        constant(len(value), _type(TrackEvent.TYPE_COUNTER)),
        _on(track),
        fixed64_field(TrackEvent.DOUBLE_COUNTER_VALUE_FIELD_NUMBER, value),
    )


def integers(column: pa.Array) -> Int64s:
    found: Int64s = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _timed_packets(ts: Int64s, *event: Fields) -> bytes:
    packets = message(
        Trace.PACKET_FIELD_NUMBER,
        varint_field(TracePacket.TIMESTAMP_FIELD_NUMBER, ts.astype(np.uint64)),
        constant(len(ts), _IN_SEQUENCE),
        message(TracePacket.TRACK_EVENT_FIELD_NUMBER, *event),
    )
    return packets.joined()


_IN_SEQUENCE = TracePacket(
    trusted_packet_sequence_id=_SEQUENCE, sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
).SerializeToString()


def _type(kind: int) -> bytes:
    return bytes(TrackEvent(type=kind).SerializeToString())


def _on(track: Int64s) -> Fields:
    return varint_field(TrackEvent.TRACK_UUID_FIELD_NUMBER, track.astype(np.uint64))


def _colours(rows: pa.RecordBatch, interning: Interning) -> list[Fields]:
    if "colour" not in rows.schema.names:
        return []
    things = rows["colour"].dictionary_encode()
    keys = pa.array([thing and colour_key(thing) for thing in things.dictionary.to_pylist()])
    texts = pa.DictionaryArray.from_arrays(things.indices, keys.cast(pa.string()))
    return [_interned(_COLOUR_FIELD, interning, COLOUR, texts)]


def _interned(number: int, interning: Interning, kind: str, texts: pa.Array) -> Fields:
    """A text, written as its number; no field if it is NULL."""
    numbers = interning.numbers(kind, texts)
    return varint_field(number, numbers).where(numbers > 0)
