"""The packets that a native Perfetto trace consists of."""

from collections.abc import Iterable, Iterator
from functools import cache

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

from traceql.errors import TraceCorrupt
from traceql.readers.unpacked import REMAKE
from traceql.util.protobuf_wire import DELIMITED, FIXED32, FIXED64, VARINT, tag, varint_at

(_PACKET,) = tag(1, DELIMITED)  # field 1 of the message Trace
_DELIMITED_TYPES = {
    FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES,
}  # fmt: skip
_NUMBERS = range(1, 10_000)  # of fields; later versions of Perfetto have more than this one
_FIXED = {FIXED64: 8, FIXED32: 4}
_FORMS = {VARINT, DELIMITED, *_FIXED}


def packets(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of each packet of a trace in pieces of any size.

    Raises:
        TraceCorrupt: the trace is damaged, or ends within a packet; the message does not name the
            file.
    """
    held: list[bytes] = []  # the start of a packet that continues in the next piece
    held_bytes, wanted_bytes, position = 0, 1, 0
    for piece in pieces:
        held.append(piece)
        held_bytes += len(piece)
        if held_bytes < wanted_bytes:
            continue
        text, at = b"".join(held), 0
        wanted_bytes = 1
        try:
            while at < len(text):
                if text[at] != _PACKET:
                    raise TraceCorrupt(_damaged(position + at))
                size, body = varint_at(text, at + 1)
                end = body + size
                if end > len(text):
                    wanted_bytes = end - at
                    break
                yield text[body:end]
                at = end
        except IndexError:  # the text ends within a length
            wanted_bytes = len(text) - at + 1
        except ValueError:
            raise TraceCorrupt(_damaged(position + at)) from None
        held, held_bytes, position = [text[at:]], len(text) - at, position + at
    if held_bytes:
        raise TraceCorrupt(f"truncated within a packet; {REMAKE}")


def _damaged(byte: int) -> str:
    return f"not a trace, or damaged at byte {byte}; {REMAKE}"


def begins_with_packets(text: bytes) -> bool:
    """Whether a file begins with these bytes of a trace: packets of known fields."""
    at = fields = 0
    try:
        while at < len(text):
            if text[at] != _PACKET:
                return False
            size, body = varint_at(text, at + 1)
            at = body + size
            if at <= len(text):
                TracePacket.FromString(text[body:at])
            fields += _known_fields(text[body:at])
    except IndexError:  # the text ends within a packet
        pass
    except (ValueError, DecodeError):
        return False
    return fields > 0


def _known_fields(packet: bytes) -> int:
    """The number of fields at the beginning of a packet; raises ValueError if one is unknown."""
    at = fields = 0
    while at < len(packet):
        key, at = varint_at(packet, at)
        number, wire_type = key >> 3, key & 7
        known = _wire_types().get(number, wire_type) == wire_type and number in _NUMBERS
        if not known or wire_type not in _FORMS:
            raise ValueError(f"field {number} of type {wire_type}")
        fields += number in _wire_types()
        if wire_type == VARINT:
            _, at = varint_at(packet, at)
        elif wire_type == DELIMITED:
            size, at = varint_at(packet, at)
            at += size
        else:
            at += _FIXED[wire_type]
    return fields


@cache
def _wire_types() -> dict[int, int]:
    """How the known fields of packets are written, by number."""
    fixed = {FieldDescriptor.TYPE_FIXED64: FIXED64, FieldDescriptor.TYPE_FIXED32: FIXED32}
    return {
        field.number: DELIMITED if field.type in _DELIMITED_TYPES else fixed.get(field.type, VARINT)
        for field in TracePacket.DESCRIPTOR.fields
    }
