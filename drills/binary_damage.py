"""Damages bytes, gzip files and packets of native traces."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from random import Random

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from drills.json_damage import ODD_TEXTS


def flip(content: bytes, random: Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        if damaged:
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def cut_out(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + content[last:]


def splice(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    at = random.randrange(len(content) + 1)
    return content[:at] + content[first:last] + content[at:]


def repeat(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + content[first:last] * random.choice((2, 3, 50)) + content[last:]


def zero(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + bytes(last - first) + content[last:]


def noise(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + random.randbytes(last - first) + content[last:]


def trailing(content: bytes, random: Random) -> bytes:
    return content + random.choice((b"\0" * 512, b"\n\n", b"garbage", b"}", b"]", content))


def _interval(content: bytes, random: Random) -> tuple[int, int]:
    first = random.randrange(len(content) + 1)
    return first, min(len(content), first + random.choice((1, 4, 64, 1024)))


BYTE_MUTATORS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    function.__name__: function
    for function in (flip, cut_off, cut_out, splice, repeat, zero, noise, trailing)
}


_BLANK = b" " * (64 << 20)


def packed(text: bytes, level: int = 9) -> bytes:
    """The text in a gzip member without a time, so that the same text gives the same bytes."""
    return gzip.compress(text, level, mtime=0)


def plain(text: bytes, random: Random) -> bytes:
    return packed(text, random.choice((0, 1, 9)))


def members(text: bytes, random: Random) -> bytes:
    """Several members, which may split the text anywhere."""
    at = sorted(random.randrange(len(text) + 1) for _ in range(random.choice((1, 3, 40))))
    return b"".join(packed(text[a:b], 1) for a, b in zip([0, *at], [*at, len(text)]))  # noqa: B905


def empty_members(text: bytes, random: Random) -> bytes:
    empty = packed(b"") * random.choice((1, 100))
    return empty + packed(text) + empty


def trailing_zeros(text: bytes, random: Random) -> bytes:
    return packed(text) + bytes(random.choice((1, 512, 100_000)))


def trailing_garbage(text: bytes, random: Random) -> bytes:
    return packed(text) + random.choice((b"x", b"\x1f\x8b", b"\x1f\x8b\x08garbage", b"\0x"))


def truncated(text: bytes, random: Random) -> bytes:
    whole = packed(text)
    return whole[: -random.choice((1, 4, 8, 9, len(whole) // 2, len(whole) - 3))]


def wrong_sum(text: bytes, random: Random) -> bytes:
    whole = bytearray(packed(text))
    whole[-random.randint(1, 8)] ^= 1 << random.randrange(8)
    return bytes(whole)


def named(text: bytes, random: Random) -> bytes:
    """A header with a name, a comment and extra fields."""
    whole = packed(text)
    return whole[:3] + b"\x1c" + whole[4:10] + b"\x02\0ab" + b"../../x\0" + b"note\0" + whole[10:]


def twice(text: bytes, random: Random) -> bytes:
    return packed(packed(text))


def zlib_only(text: bytes, random: Random) -> bytes:
    return zlib.compress(text)


def bomb(text: bytes, random: Random) -> bytes:
    """The text behind or before hundreds of mebibytes of spaces, as one member or several."""
    blank = packed(_BLANK) * random.choice((1, 1, 4))
    return blank + packed(text) if random.random() < 0.5 else packed(text) + blank


def damaged(text: bytes, random: Random) -> bytes:
    return random.choice(list(BYTE_MUTATORS.values()))(packed(text), random)


GZIP_MUTATORS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    function.__name__: function
    for function in (
        plain, members, empty_members, trailing_zeros, trailing_garbage, truncated, wrong_sum, named,
        twice, zlib_only, bomb, damaged,
    )
}  # fmt: skip


Packets = list[TracePacket]
_UINT64 = 2**64 - 1


def dropped(packets: Packets, random: Random) -> Packets:
    """Some packets are missing: ends without a beginning, slices without an end, tracks unknown."""
    share = random.choice((0.01, 0.2, 0.8))
    return [packet for packet in packets if random.random() > share]


def doubled(packets: Packets, random: Random) -> Packets:
    return [packet for packet in packets for _ in range(random.choice((1, 1, 1, 2)))]


def shuffled(packets: Packets, random: Random) -> Packets:
    return random.sample(packets, len(packets))


def shuffled_events(packets: Packets, random: Random) -> Packets:
    """Events in any order behind the descriptors; what each one says stays the same."""
    tracks = [packet for packet in packets if packet.HasField("track_descriptor")]
    events = [packet for packet in packets if not packet.HasField("track_descriptor")]
    return tracks + random.sample(events, len(events))


def renamed(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.track_event.name = random.choice(ODD_TEXTS)
    return packets


def no_name(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.track_event.ClearField("name")
    return packets


def interned_name(packets: Packets, random: Random) -> Packets:
    """Names by a number that nothing defines."""
    for packet in _events(packets, random):
        packet.track_event.name_iid = random.choice((1, 2, _UINT64))
    return packets


def other_time(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.timestamp = random.choice((0, 1, 10**9, 2**62, 2**63 - 1, 2**63, _UINT64))
    return packets


def equal_times(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.timestamp = 10**12
    return packets


def no_time(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.ClearField("timestamp")
    return packets


def other_clock(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.timestamp_clock_id = random.choice((1, 3, 6, 64, 128, 255))
    return packets


def other_type(packets: Packets, random: Random) -> Packets:
    kinds = TrackEvent.Type.values()
    for packet in _events(packets, random):
        packet.track_event.type = random.choice(kinds)
    return packets


def other_track(packets: Packets, random: Random) -> Packets:
    uuids = [
        packet.track_descriptor.uuid for packet in packets if packet.HasField("track_descriptor")
    ]
    for packet in _events(packets, random):
        packet.track_event.track_uuid = random.choice((0, 12345, _UINT64, *uuids))
    return packets


def no_track(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.track_event.ClearField("track_uuid")
    return packets


def no_sequence(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.ClearField("trusted_packet_sequence_id")
    return packets


def lost_packets(packets: Packets, random: Random) -> Packets:
    """The recorder says that packets before this one were lost."""
    for packet in _events(packets, random):
        packet.previous_packet_dropped = 1
    return packets


def needs_state(packets: Packets, random: Random) -> Packets:
    """Packets that need interned state which was never sent."""
    for packet in _events(packets, random):
        packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    return packets


def odd_arguments(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        for _ in range(random.choice((1, 3))):
            one = packet.track_event.debug_annotations.add()
            one.name = random.choice(
                (*ODD_TEXTS, "grid[0]", "grid", "a.b", "debug.x", "correlation")
            )
            field = random.choice(
                ("int_value", "uint_value", "double_value", "string_value", "none")
            )
            if field == "string_value":
                one.string_value = random.choice(ODD_TEXTS)
            elif field == "double_value":
                one.double_value = random.choice((float("nan"), float("inf"), 1e300, -0.0))
            elif field == "int_value":
                one.int_value = random.choice((-(2**63), 2**63 - 1, 0))
            elif field == "uint_value":
                one.uint_value = _UINT64
    return packets


def endless_flows(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.track_event.flow_ids.append(random.choice((1, 2, _UINT64)))
        if random.random() < 0.3:
            packet.track_event.terminating_flow_ids.append(random.choice((1, 3)))
    return packets


def other_parent(packets: Packets, random: Random) -> Packets:
    """Tracks inside themselves or inside tracks that do not exist."""
    tracks = [packet for packet in packets if packet.HasField("track_descriptor")]
    for packet in tracks:
        own = packet.track_descriptor.uuid
        packet.track_descriptor.parent_uuid = random.choice(
            (own, 999, tracks[0].track_descriptor.uuid)
        )
    return packets


def _events(packets: Packets, random: Random) -> Packets:
    """Some of the events."""
    share = random.choice((0.01, 0.1, 1))
    return [p for p in packets if p.HasField("track_event") and random.random() < share]


PACKET_MUTATORS: Mapping[str, Callable[[Packets, Random], Packets]] = {
    function.__name__: function
    for function in (
        dropped, doubled, shuffled, shuffled_events, renamed, no_name, interned_name, other_time,
        equal_times, no_time, other_clock, other_type, other_track, no_track, no_sequence,
        lost_packets, needs_state, odd_arguments, endless_flows, other_parent,
    )
}  # fmt: skip
