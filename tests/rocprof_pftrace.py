"""Perfetto traces as rocprofv3 writes them, from records of `rocpd_like`."""

from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    Trace,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from rocpd_like import CALL, COPY, FIRST_GPU, HSA, KERNEL, MARKER, Record, Recorded

_CATEGORIES = {
    KERNEL: "kernel_dispatch",
    COPY: "memory_copy",
    CALL: "hip_api",
    HSA: "hsa_api",
    MARKER: "marker_api",
}
_STREAM = 1 << 40  # the number of a stream's track, which has no thread


def write_pftrace(path: Path, process: Recorded) -> Path:
    """Writes the trace of a process; allocations are only counters there, which are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trace = Trace()
    trace.packet.add(
        trusted_packet_sequence_id=1, sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    )
    for track in sorted({_track(r) for r in process.records}):
        name = f'STREAM [" {track - _STREAM} "]' if track >= _STREAM else f"THREAD 1 ({track})"
        described = TrackDescriptor(uuid=track, name=name)
        trace.packet.add(trusted_packet_sequence_id=1, track_descriptor=described)
    for record in process.of(*_CATEGORIES):
        _add(trace, record)
    path.write_bytes(trace.SerializeToString())
    return path


def _track(record: Record) -> int:
    return _STREAM + record.stream if record.kind in (KERNEL, COPY) else record.tid


def _add(trace: Trace, record: Record) -> None:
    track, begin, end = _track(record), TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
    name, cats = record.message or record.name, [_CATEGORIES[record.kind]]
    event = TrackEvent(type=begin, track_uuid=track, name=name, categories=cats)
    for key, value in _annotations(record).items():
        kind = "string_value" if isinstance(value, str) else "uint_value"
        event.debug_annotations.add(**{"name": key, kind: value})
    ends = TrackEvent(type=end, track_uuid=track)
    for ts, each in ((record.ts, event), (record.end, ends)):
        trace.packet.add(timestamp=ts, trusted_packet_sequence_id=1, track_event=each)


def _annotations(record: Record) -> dict[str, Any]:
    usual = {"begin_ns": record.ts, "end_ns": record.end, "tid": record.tid}
    usual |= {"corr_id": record.correlation}
    if record.kind == KERNEL:
        gpu = {"agent": f"Agent-{FIRST_GPU + record.device}", "agent_type": "GPU"}
        return usual | gpu | {"queue": record.queue, "stream_ID": record.stream}
    if record.kind == COPY:
        source, target = (f"Agent-{agent}" for agent in record.agents())
        ends = {"src_agent": source, "dst_agent": target}
        return usual | ends | {"copy_bytes": record.bytes, "stream_ID": record.stream}
    return usual
