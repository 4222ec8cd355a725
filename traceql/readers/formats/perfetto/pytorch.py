"""Traces of PyTorch's own native recorder, as the events that its JSON has.

The recorder (pytorch#187898) writes no categories, and groups of events: first the begins of all
slices of a group, then their ends in the same order. Pairs are made by that order, because slices
that begin or end together would get wrong durations by their times alone.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    DebugAnnotation,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)

from traceql.readers.dialects.pytorch.categories import ARGUMENTS, category_of, is_activity
from traceql.readers.formats.kineto.kineto_json import Event, Raw
from traceql.readers.formats.perfetto.packets import packets
from traceql.readers.timeline import COMPLETE, FLOW_BEGINS, FLOW_FINISHES, METADATA

_OF_BEGINS = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE  # flags of their packets; ends have none
_MINUS_ONE = 2**31 - 1  # how the recorder writes the process of its overhead
_NULL = "null"  # how it writes null
_ARROW = "ac2g"


def events_of_recorder(pieces: Iterable[bytes]) -> list[Event] | None:
    """The events of a trace of the recorder, in the order of the file.

    None if another program wrote it.
    """
    names: dict[int, str] = {}
    tracks: dict[int, TrackDescriptor] = {}
    open_: deque[tuple[int, TrackEvent]] = deque()
    found: list[tuple[TrackEvent, int, int]] = []  # its begin, start and end, ns
    for content in packets(pieces):
        packet = TracePacket.FromString(content)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        names |= {each.iid: each.name for each in packet.interned_data.event_names}
        if not packet.HasField("track_event"):
            continue
        event, flags = packet.track_event, packet.sequence_flags
        if event.type == TrackEvent.TYPE_SLICE_BEGIN and flags == _OF_BEGINS:
            open_.append((packet.timestamp, event))
        elif event.type == TrackEvent.TYPE_SLICE_END and open_ and not flags:
            ts, begin = open_.popleft()
            if begin.track_uuid != event.track_uuid or packet.timestamp < ts:
                return None
            found.append((begin, ts, packet.timestamp))
        else:
            return None
    keys = {each.name for event, _, _ in found for each in event.debug_annotations}
    if open_ or keys.isdisjoint(ARGUMENTS):
        return None
    if not tracks.keys() >= {event.track_uuid for event, _, _ in found}:
        return None
    places = {uuid: _place(tracks, uuid) for uuid in tracks}
    return [*_names(tracks, places), *_complete(found, names, places)]


Place = tuple[int, int | None]


def _place(tracks: Mapping[int, TrackDescriptor], uuid: int) -> Place:
    """The process and the thread of a track."""
    track = tracks[uuid]
    pid = track.thread.pid if track.HasField("thread") else track.process.pid
    return -1 if pid == _MINUS_ONE else pid, track.thread.tid if track.HasField("thread") else None


def _names(tracks: Mapping[int, TrackDescriptor], places: Mapping[int, Place]) -> Iterator[Event]:
    for uuid, track in tracks.items():
        pid, tid = places[uuid]
        kind, name = (
            ("process_name", track.process.process_name)
            if tid is None
            else ("thread_name", track.thread.thread_name)
        )
        yield Event(ph=METADATA, name=kind, pid=pid, tid=tid, args=_json({"name": name}))


def _complete(
    found: Iterable[tuple[TrackEvent, int, int]],
    names: Mapping[int, str],
    places: Mapping[int, Place],
) -> Iterator[Event]:
    described = [
        (
            event,
            names.get(event.name_iid, event.name),
            {each.name: _value(each) for each in event.debug_annotations},
        )
        for event, _, _ in found
    ]
    streams = {event.track_uuid for event, _, args in described if is_activity(args)}
    for (event, name, args), (_, begin, end) in zip(described, found, strict=True):
        pid, tid = places[event.track_uuid]
        on_a_stream = event.track_uuid in streams
        at: dict[str, Any] = {"pid": pid, "tid": tid, "ts": _us(begin)}
        yield Event(
            ph=COMPLETE,
            name=name,
            cat=category_of(name, args, pid=pid, on_a_stream=on_a_stream),
            dur=_us(end - begin),
            args=_json(args),
            **at,
        )
        phase = FLOW_FINISHES if on_a_stream else FLOW_BEGINS
        for number in event.flow_ids:
            id_ = Raw(str(number).encode())
            yield Event(ph=phase, name=_ARROW, cat=_ARROW, id=id_, bp="e", **at)


def _value(annotation: DebugAnnotation) -> Any:
    if annotation.dict_entries:
        return {each.name: _value(each) for each in annotation.dict_entries}
    kind = annotation.WhichOneof("value")
    if kind is None:
        return [_value(each) for each in annotation.array_values]
    value = getattr(annotation, kind)
    return None if value == _NULL else value


def _us(ns: int) -> Raw:
    return Raw(b"%d.%03d" % divmod(ns, 1000))


def _json(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())
