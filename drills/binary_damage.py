"""Damages bytes, gzip files and packets of native traces."""

import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from random import Random

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from drills.json_damage import ODD_TEXTS


def flip(content: bytes, random: Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        if damaged:
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def _interval(
    change: Callable[[bytes, Random], bytes],
) -> Callable[[bytes, Random], bytes]:
    """Changes an interval of the content."""

    def damage(content: bytes, random: Random) -> bytes:
        first = random.randrange(len(content) + 1)
        last = min(len(content), first + random.choice((1, 4, 64, 1024)))
        return content[:first] + change(content[first:last], random) + content[last:]

    return damage


def splice(content: bytes, random: Random) -> bytes:
    first = random.randrange(len(content) + 1)
    at = random.randrange(len(content) + 1)
    return content[:at] + content[first : first + random.choice((1, 4, 64, 1024))] + content[at:]


BYTE_MUTATORS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    "flip": flip,
    "cut_off": lambda content, random: content[: random.randrange(len(content) + 1)],
    "cut_out": _interval(lambda _part, _random: b""),
    "splice": splice,
    "repeat": _interval(lambda part, random: part * random.choice((2, 3, 50))),
    "zero": _interval(lambda part, _: bytes(len(part))),
    "noise": _interval(lambda part, random: random.randbytes(len(part))),
    "trailing": lambda content, random: (
        content + random.choice((b"\0" * 512, b"\n\n", b"garbage", b"}", b"]", content))
    ),
}


_BLANK = b" " * (64 << 20)
_GARBAGE = (b"x", b"\x1f\x8b", b"\x1f\x8b\x08garbage", b"\0x")


def packed(text: bytes, level: int = 9) -> bytes:
    """The text in a gzip member without a time, so that the same text gives the same bytes."""
    return gzip.compress(text, level, mtime=0)


def members(text: bytes, random: Random) -> bytes:
    """Several members, which may split the text anywhere."""
    at = sorted(random.randrange(len(text) + 1) for _ in range(random.choice((1, 3, 40))))
    return b"".join(packed(text[a:b], 1) for a, b in zip([0, *at], [*at, len(text)]))  # noqa: B905


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


def bomb(text: bytes, random: Random) -> bytes:
    """The text behind or before hundreds of mebibytes of spaces, as one member or several."""
    blank = packed(_BLANK) * random.choice((1, 1, 4))
    return blank + packed(text) if random.random() < 0.5 else packed(text) + blank


GZIP_MUTATORS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    "plain": lambda text, random: packed(text, random.choice((0, 1, 9))),
    "members": members,
    "empty_members": lambda text, random: packed(text).join(
        [packed(b"") * random.choice((1, 100))] * 2
    ),
    "trailing_zeros": lambda text, random: packed(text) + bytes(random.choice((1, 512, 100_000))),
    "trailing_garbage": lambda text, random: packed(text) + random.choice(_GARBAGE),
    "truncated": truncated,
    "wrong_sum": wrong_sum,
    "named": named,
    "twice": lambda text, _: packed(packed(text)),
    "zlib_only": lambda text, _: zlib.compress(text),
    "bomb": bomb,
    "damaged": lambda text, random: random.choice(list(BYTE_MUTATORS.values()))(
        packed(text), random
    ),
}


Packets = list[TracePacket]
_UINT64 = 2**64 - 1


def dropped(packets: Packets, random: Random) -> Packets:
    """Some packets are missing: ends without a beginning, slices without an end, tracks unknown."""
    share = random.choice((0.01, 0.2, 0.8))
    return [packet for packet in packets if random.random() > share]


def _tracks(packets: Packets) -> Packets:
    return [packet for packet in packets if packet.HasField("track_descriptor")]


def other_parent(packets: Packets, random: Random) -> Packets:
    """Tracks inside themselves or inside tracks that do not exist."""
    tracks = [packet.track_descriptor for packet in _tracks(packets)]
    for track in tracks:
        track.parent_uuid = random.choice((track.uuid, 999, tracks[0].uuid))
    return packets


def other_track(packets: Packets, random: Random) -> Packets:
    uuids = [packet.track_descriptor.uuid for packet in _tracks(packets)]
    for packet in _events(packets, random):
        packet.track_event.track_uuid = random.choice((0, 12345, _UINT64, *uuids))
    return packets


def odd_arguments(packets: Packets, random: Random) -> Packets:
    names = (*ODD_TEXTS, "grid[0]", "grid", "a.b", "debug.x", "correlation")
    for packet in _events(packets, random):
        for _ in range(random.choice((1, 3))):
            field, values = random.choice(list(_ODD_VALUES.items()))
            argument = packet.track_event.debug_annotations.add(name=random.choice(names))
            if values:
                setattr(argument, field, random.choice(values))
    return packets


def endless_flows(packets: Packets, random: Random) -> Packets:
    for packet in _events(packets, random):
        packet.track_event.flow_ids.append(random.choice((1, 2, _UINT64)))
        if random.random() < 0.3:
            packet.track_event.terminating_flow_ids.append(random.choice((1, 3)))
    return packets


_ODD_VALUES: Mapping[str, Sequence[object]] = {
    "string_value": ODD_TEXTS,
    "double_value": (float("nan"), float("inf"), 1e300, -0.0),
    "int_value": (-(2**63), 2**63 - 1, 0),
    "uint_value": (_UINT64,),
    "none": (),
}
# The field that becomes one of these values in some events, or is removed where there are none.
_ODD_FIELDS: Mapping[str, tuple[str, Sequence[object]]] = {
    "renamed": ("track_event.name", ODD_TEXTS),
    "no_name": ("track_event.name", ()),
    "interned_name": ("track_event.name_iid", (1, 2, _UINT64)),  # which nothing defines
    "other_time": ("timestamp", (0, 1, 10**9, 2**62, 2**63 - 1, 2**63, _UINT64)),
    "equal_times": ("timestamp", (10**12,)),
    "no_time": ("timestamp", ()),
    "other_clock": ("timestamp_clock_id", (1, 3, 6, 64, 128, 255)),
    "other_type": ("track_event.type", TrackEvent.Type.values()),
    "no_track": ("track_event.track_uuid", ()),
    "no_sequence": ("trusted_packet_sequence_id", ()),
    "lost_packets": ("previous_packet_dropped", (1,)),
    "needs_state": ("sequence_flags", (TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,)),  # never sent
}


def _odd_field(path: str, values: Sequence[object]) -> Callable[[Packets, Random], Packets]:
    def change(packets: Packets, random: Random) -> Packets:
        for packet in _events(packets, random):
            holder, _, field = path.rpartition(".")
            message = getattr(packet, holder) if holder else packet
            if values:
                setattr(message, field, random.choice(values))
            else:
                message.ClearField(field)
        return packets

    return change


def _events(packets: Packets, random: Random) -> Packets:
    """Some of the events."""
    share = random.choice((0.01, 0.1, 1))
    return [p for p in packets if p.HasField("track_event") and random.random() < share]


PACKET_MUTATORS: Mapping[str, Callable[[Packets, Random], Packets]] = {
    "dropped": dropped,
    "doubled": lambda packets, random: [
        packet for packet in packets for _ in range(random.choice((1, 1, 1, 2)))
    ],
    "shuffled": lambda packets, random: random.sample(packets, len(packets)),
    # Events in any order behind the descriptors; what each one says stays the same.
    "shuffled_events": lambda packets, random: sorted(
        random.sample(packets, len(packets)),
        key=lambda packet: not packet.HasField("track_descriptor"),
    ),
    "other_parent": other_parent,
    "other_track": other_track,
    "odd_arguments": odd_arguments,
    "endless_flows": endless_flows,
    **{name: _odd_field(*field) for name, field in _ODD_FIELDS.items()},
}
