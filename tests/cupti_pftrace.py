"""Native traces as PyTorch's own recorder writes them (pytorch#187898, #191667), made from events.

Synthetic: after the public source of that encoder, without a recording of it. Events have no
categories there, and those of a group all begin before any of them ends in the file.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    DebugAnnotation,
    Trace,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)

BASE_NS = 1_795_000_000_000_000_000
_LARGEST_ID = 0x7FFFFFFF
_LAUNCHES = ("cuda_runtime", "cuda_driver")
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def write_cupti(path: Path, *events: dict[str, Any]) -> Path:
    """Writes complete events of the JSON form, whose times are us."""
    trace = Trace()
    tracks: dict[tuple[int, int | None], int] = {}
    for event in events:
        for tid in (None, event["tid"]):
            place = event["pid"], tid
            if place not in tracks:
                tracks[place] = len(tracks) + 1
                trace.packet.add(track_descriptor=_track(tracks, *place))
    names = list(dict.fromkeys(event["name"] for event in events))
    packet = trace.packet.add(
        trusted_packet_sequence_id=1, sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    )
    for number, name in enumerate(names, 1):
        packet.interned_data.event_names.add(iid=number, name=name)
    for cat in dict.fromkeys(event["cat"] for event in events):
        group = [event for event in events if event["cat"] == cat]
        _add_group(trace, group, tracks, names)
    path.write_bytes(trace.SerializeToString())
    return path


def _track(tracks: dict[tuple[int, int | None], int], pid: int, tid: int | None) -> TrackDescriptor:
    described = TrackDescriptor(uuid=tracks[pid, tid])
    if tid is None:
        described.process.pid, described.process.process_name = pid & _LARGEST_ID, f"process {pid}"
        return described
    described.parent_uuid = tracks[pid, None]
    thread = described.thread
    thread.pid, thread.tid, thread.thread_name = pid & _LARGEST_ID, tid, f"thread {tid}"
    return described


def _add_group(
    trace: Trace,
    events: Sequence[dict[str, Any]],
    tracks: dict[tuple[int, int | None], int],
    names: Sequence[str],
) -> None:
    for event in events:
        begin = TrackEvent(
            type=TrackEvent.TYPE_SLICE_BEGIN,
            track_uuid=tracks[event["pid"], event["tid"]],
            name_iid=names.index(event["name"]) + 1,
        )
        args = event.get("args", {})
        if event["cat"] in (*_LAUNCHES, *_ON_GPU) and args.get("correlation"):
            begin.flow_ids.append(args["correlation"])
        for key, value in args.items():
            _set(begin.debug_annotations.add(name=key), value)
        trace.packet.add(
            timestamp=BASE_NS + round(event["ts"] * 1000),
            trusted_packet_sequence_id=1,
            sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
            track_event=begin,
        )
    for event in events:
        end = TrackEvent(
            type=TrackEvent.TYPE_SLICE_END, track_uuid=tracks[event["pid"], event["tid"]]
        )
        trace.packet.add(
            timestamp=BASE_NS + round((event["ts"] + event["dur"]) * 1000),
            trusted_packet_sequence_id=1,
            track_event=end,
        )


def _set(annotation: DebugAnnotation, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _set(annotation.dict_entries.add(name=key), inner)
    elif isinstance(value, list):
        for inner in value:
            _set(annotation.array_values.add(), inner)
    elif isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    elif isinstance(value, float):
        annotation.double_value = value
    else:
        annotation.string_value = "null" if value is None else value
