"""What a native Perfetto trace says: its slices, paired from packets by hand."""

import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

Slice = tuple[str, int, int]  # name, start, duration in ns
_PACKET_TAG = 0x0A  # field 1 of the message Trace, with a length
_BEGIN, _END, _INSTANT = (
    TrackEvent.TYPE_SLICE_BEGIN,
    TrackEvent.TYPE_SLICE_END,
    TrackEvent.TYPE_INSTANT,
)
_LATEST = 2**62  # ns; no seed and no mutator means a later time


@dataclass
class Slices:
    """The slices of a trace.

    Attributes:
        certain: those that begin and end as the format says, if nothing in the trace is uncertain.
        began: the number of packets that begin a slice or are an instant.
        is_certain: every packet is one that this module understands.
    """

    certain: Counter[Slice] = field(default_factory=Counter)
    began: int = 0
    is_certain: bool = True


def slices_of(content: bytes) -> Slices | None:
    """The slices of a trace; None if it does not consist of whole packets."""
    packets = _packets(content)
    if packets is None:
        return None
    found = Slices()
    described = set()
    by_track: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for encoded in packets:
        packet = TracePacket()
        try:
            packet.ParseFromString(encoded)
        except DecodeError:
            found.is_certain = False
            continue
        if packet.HasField("track_descriptor"):
            described.add(packet.track_descriptor.uuid)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        is_slice = event.type in (_BEGIN, _END, _INSTANT)
        found.began += event.type in (_BEGIN, _INSTANT)
        found.is_certain &= _is_plain(packet, described) and is_slice
        by_track[event.track_uuid].append((packet.timestamp, event.type, event.name))
    if found.is_certain:
        for events in by_track.values():
            _pair(events, found)
    return found


def inflated(content: bytes) -> bytes | None:
    """The packets that packets of a trace hold in compressed form; None if one of them is cut."""
    parts = []
    for encoded in _packets(content) or ():
        try:
            parts.append(zlib.decompress(TracePacket.FromString(encoded).compressed_packets))
        except (DecodeError, zlib.error):
            return None
    return b"".join(parts)


def _is_plain(packet: TracePacket, described: set[int]) -> bool:
    """Whether a packet means what it says without any other one but the descriptor of its track."""
    event = packet.track_event
    return (
        packet.HasField("timestamp")
        and packet.timestamp < _LATEST
        and not packet.HasField("timestamp_clock_id")
        and packet.trusted_packet_sequence_id > 0
        and event.HasField("track_uuid")
        and event.track_uuid in described
        and isinstance(event.name, str)  # bytes if they are not UTF-8
        and not event.name_iid
        and not event.HasField("legacy_event")
        and not event.HasField("timestamp_delta_us")
        and not event.HasField("timestamp_absolute_us")
        and not len(UnknownFieldSet(packet))
        and not len(UnknownFieldSet(event))
    )


def _pair(events: list[tuple[int, int, str]], found: Slices) -> None:
    """Ends close the slice that began last; those without a beginning mean nothing."""
    open_slices: list[tuple[int, str]] = []
    for ts, kind, name in sorted(events, key=lambda event: event[0]):
        if kind == _BEGIN:
            open_slices.append((ts, name))
        elif kind == _INSTANT:
            found.certain[name, ts, 0] += 1
        elif open_slices:
            began, of_begin = open_slices.pop()
            found.certain[of_begin, began, ts - began] += 1


def _packets(content: bytes) -> list[bytes] | None:
    found, at = [], 0
    while at < len(content):
        if content[at] != _PACKET_TAG:
            return None
        size, shift, at = 0, 0, at + 1
        while True:
            if at >= len(content) or shift > 63:
                return None
            size |= (content[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not content[at - 1] & 0x80:
                break
        if at + size > len(content):
            return None
        found.append(content[at : at + size])
        at += size
    return found
