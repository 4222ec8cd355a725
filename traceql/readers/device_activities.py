"""Recognises activities of devices of any kind by what they are.

Events of the categories of CUDA and ROCm are activities. Events of a category that nobody described
are activities if they are on the track of a device, or have two of the arguments device, stream and
correlation, and are not on a track of the host. So kernels of MTIA, Gaudi, XPU and plug-in devices
are found, and those of Intel's unitrace and of JAX.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.dialects.pytorch.vocabulary import (
    DEVICE_CATEGORIES,
    ON_GPU,
    kind_of,
)
from traceql.readers.tables import Remark
from traceql.readers.tracks import Track

Bools = npt.NDArray[np.bool_]

_HOST = re.compile(r"^(CPU$|HOST<|/host:)")
# "MTIA 9" and "GPU 0" of Kineto, "DEVICE<host>[...]" of unitrace, "/device:TPU:0" of JAX.
_DEVICE = re.compile(r"^[A-Z][A-Z0-9]+ \d+$|^(RANK \d+ )?DEVICE<|^/device:\w+:\d+")
_NUMBER_OF_JAX = re.compile(r"^/device:\w+:(\d{1,9})")
# JAX repeats the activities of its streams on tracks that name what they belong to.
_STREAM_OF_JAX = re.compile(r"^Stream ")
_LISTED = 3  # categories
_ON_HOST = {EventKind.OPERATOR, EventKind.LAUNCH, EventKind.ANNOTATION, EventKind.FRAME}


def may_be_activity(cat: Any) -> bool:
    """Whether events of this category are activities of a device, or may be."""
    kind = kind_of(str(cat)) if cat is not None else None
    return kind is None or kind in ON_GPU


def is_launch_category(cat: Any) -> bool:
    """Whether events of this category are calls of a runtime or driver, such as launches."""
    return cat is not None and kind_of(str(cat)) == EventKind.LAUNCH


def is_on_host(cat: Any) -> bool:
    """Whether events of this category are on a thread of the host."""
    return cat is not None and kind_of(str(cat)) in _ON_HOST


class DeviceActivities:
    """The activities of a file, of which the tracks are known.

    Args:
        tracks: all tracks of the file, by number.
        host_pids: returns the processes with events of the host, such as operators.
    """

    def __init__(self, tracks: Sequence[Track], host_pids: Callable[[], set[Any]] = set) -> None:
        self._host_pids = host_pids
        self._host = np.array([_is_host(track) for track in tracks], np.bool_)
        self._device = np.array([_is_device(track) for track in tracks], np.bool_)
        self._number = np.array([_number(track) for track in tracks], np.int64)
        self._pid = [track.pid for track in tracks]
        self._recognised: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    def found(self, possible: pa.Table, slices: pa.Table, first: int = 0) -> pa.Table:
        """The rows of `possible`, of the contract's table activity, that are activities.

        Args:
            slices: the slices that `possible` refers to, with cat, track and correlation.
            first: the index of the first of them.
        """
        cats = pa.chunked_array(slices["cat"]).combine_chunks()
        names = cats.dictionary.to_pylist()
        is_known = np.array([_is_known(name) for name in names] + [False], np.bool_)
        row = possible["index"].to_numpy() - first
        code = cats.indices.fill_null(len(names)).to_numpy()[row]
        known: Bools = is_known[code]
        if known.all():
            return possible
        at = np.flatnonzero(~known)
        track = slices["track"].to_numpy()[row[at]]
        arguments = [
            possible["device"].take(at),
            possible["stream"].take(at),
            slices["correlation"].take(row[at]),
        ]
        given = np.sum([pc.is_valid(column).to_numpy() for column in arguments], axis=0)
        is_named = np.array([str(name).lower() in DEVICE_CATEGORIES for name in names] + [False])
        host_pids = self._host_pids()
        beside_host = np.array([pid in host_pids for pid in self._pid], np.bool_)
        by_name = is_named[code[at]] & ~beside_host[track]
        here = by_name | self._device[track] | (given > 1)
        kept = here & ~self._host[track]
        names_device = pc.or_(*(pc.is_valid(column) for column in arguments[:2])).to_numpy()
        odd = ~here & ~self._host[track] & (names_device | (given > 0) & ~beside_host[track])
        for count, rows in ((self._recognised, kept), (self._unknown, odd)):
            count.update(str(([*names, None])[number]) for number in code[at[rows]].tolist())
        known[at[kept]] = True
        number = np.full(len(known), -1)
        number[at] = self._number[track]
        if (number >= 0).any():
            named_device = pa.array(number, mask=number < 0)
            device = pc.coalesce(possible["device"], named_device)
            possible = possible.set_column(
                possible.schema.get_field_index("device"), "device", device
            )
        return possible.filter(pa.array(known))

    def remarks(self) -> Iterator[Remark]:
        """Which activities were recognised without a known category, and which events were not."""
        found, odd = self._recognised.total(), self._unknown.total()
        if found:
            what = f"activities of category {_listed(self._recognised)}, known by device and stream"
            yield Remark("activities of other devices", found, found, None, what)
        if odd:
            what = (
                f"events of category {_listed(self._unknown)} that look like device activity and "
            )
            what += "were not understood; all events of such categories that look like it"
            yield Remark("device events not understood", odd, found + odd, False, what)


def _listed(count: Counter[str]) -> str:
    names = [name if name != "None" else "none" for name, _ in count.most_common()]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _is_known(cat: str | None) -> bool:
    return cat is not None and kind_of(cat) in ON_GPU


def _names(track: Track) -> list[str]:
    return [str(name) for name in (track.process_labels, track.process_name) if name is not None]


def _is_host(track: Track) -> bool:
    return any(_HOST.search(name) for name in _names(track))


def _is_device(track: Track) -> bool:
    names = _names(track)
    if any(name.startswith("/device:") for name in names):
        return bool(_STREAM_OF_JAX.search(str(track.thread_name)))
    return any(_DEVICE.search(name) for name in names)


def _number(track: Track) -> int:
    """The number of the device that the track is named after; -1 if there is none."""
    found = (_NUMBER_OF_JAX.search(name) for name in _names(track))
    return next((int(one[1]) for one in found if one), -1)
