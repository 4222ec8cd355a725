"""Damages the packets of a native Perfetto trace."""

from collections.abc import Callable, Mapping
from random import Random

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from drills.mutate.texts import ODD_TEXTS

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


MUTATORS: Mapping[str, Callable[[Packets, Random], Packets]] = {
    function.__name__: function
    for function in (
        dropped, doubled, shuffled, shuffled_events, renamed, no_name, interned_name, other_time,
        equal_times, no_time, other_clock, other_type, other_track, no_track, no_sequence,
        lost_packets, needs_state, odd_arguments, endless_flows, other_parent,
    )
}  # fmt: skip
