"""The devices of a file that has several: which events belong to the part of each."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from traceql.readers.dialects.ascend.vocabulary import Category
from traceql.readers.formats.ascend.arrows import OF_OPERATORS, ends
from traceql.readers.formats.ascend.events import HARDWARE, AscendEvents
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.phases import FLOW_BEGINS, FLOW_FINISHES
from traceql.readers.tracks import Track

Place = tuple[Any, Any]  # pid and tid
_NUMBER = re.compile(r"NPU\s*(\d{1,6})")


@dataclass(frozen=True)
class DevicePart:
    """The part of one device: its own events, and those of the threads that started its tasks.

    Attributes:
        device: the number of the NPU on its host.
        others: threads whose events are of other devices.
        processes: processes all of whose threads are.
    """

    device: int
    others: frozenset[Place]
    processes: frozenset[Any]

    def kept(self, batches: Iterable[list[Event]]) -> Iterator[list[Event]]:
        """The events without those of other devices."""
        for events in batches:
            yield [
                event
                for event in events
                if event.pid not in self.processes and (event.pid, event.tid) not in self.others
            ]


def device_parts(events: AscendEvents) -> list[DevicePart]:
    """The part of each device that ran tasks, by its number; empty if there is but one.

    The first device also has what tells of none.
    """
    found = _devices(events.tracks)
    used = events.on(HARDWARE)
    ran = {found[int(track)] for track in np.unique(events.parsed.slices.track[used])}
    devices = sorted(device for device in ran if device is not None)
    if len(devices) < 2:
        return []
    owners = _owners(events, found, devices)
    places = [(track.pid, track.tid) for track in events.tracks]
    return [_part(device, places, owners) for device in devices]


def activities(events: AscendEvents) -> int:
    """The number of compute tasks, copies and operations of communication.

    Kernels that only carry out an operation count too: which ones do depends on the devices that
    the events are of.
    """
    found = events.of(Category.KERNEL, Category.MEMCPY, Category.COMMUNICATION)
    found[events.carried_out] = True
    return int(found.sum())


def device_number(label: object) -> int | None:
    """The number in the label of a track, such as `NPU 1`."""
    named = _NUMBER.fullmatch(str(label or "").strip())
    return int(named[1]) if named else None


def _devices(tracks: Sequence[Track]) -> list[int | None]:
    """The device of each track; None for those of the host.

    Labels of older files have no number; then processes of the same name are of several devices,
    in the order of their ids.
    """
    alike: defaultdict[str, set[Any]] = defaultdict(set)
    for track in tracks:
        if _is_unnumbered(track):
            alike[str(track.process_name)].add(track.pid)
    order = {
        (name, pid): number
        for name, pids in alike.items()
        for number, pid in enumerate(sorted(pids, key=lambda pid: (len(str(pid)), str(pid))))
    }
    return [
        order[str(track.process_name), track.pid]
        if _is_unnumbered(track)
        else device_number(track.process_labels)
        for track in tracks
    ]


def _is_unnumbered(track: Track) -> bool:
    label = str(track.process_labels or "").strip()
    return label == "NPU" or (not label and track.process_name == HARDWARE)


def _owners(events: AscendEvents, found: Sequence[int | None], devices: Sequence[int]) -> list[int]:
    """The device of each track: of a thread of the host, that of most tasks that it started.

    Threads that only put operators into torch_npu's queue have arrows to tasks.
    """
    track, connection = events.parsed.slices.track, events.connection
    on_device = np.array([device is not None for device in found], np.bool_)[track]
    tasks = np.flatnonzero(on_device & (connection >= 0))
    device_of = {int(connection[at]): found[int(track[at])] for at in tasks.tolist()}
    started: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for at in np.flatnonzero(~on_device & (connection >= 0)).tolist():
        if (device := device_of.get(int(connection[at]))) is not None:
            started[int(track[at])][device] += 1
    begun = {number: place[0] for number, place in ends(events, OF_OPERATORS, FLOW_BEGINS)}
    for number, (task_track, _) in ends(events, OF_OPERATORS, FLOW_FINISHES):
        if number in begun and (device := found[task_track]) is not None:
            started[begun[number]][device] += 1
    of_thread = {
        events.tracks[number].tid: counted.most_common(1)[0][0]
        for number, counted in started.items()
    }
    return [
        of_thread.get(one.tid, devices[0]) if device is None else device
        for one, device in zip(events.tracks, found, strict=True)
    ]


def _part(device: int, places: Sequence[Place], owners: Sequence[int]) -> DevicePart:
    own = {place for place, owner in zip(places, owners, strict=True) if owner == device}
    others = frozenset(places) - own
    mine = {pid for pid, _ in own}
    return DevicePart(device, others, frozenset(pid for pid, _ in others if pid not in mine))
