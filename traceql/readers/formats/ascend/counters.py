"""Samples of counters, taken out of the events of a file."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.formats.kineto.gathering import times
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.tables import COUNTER, NAME
from traceql.readers.tracks import Track

_COUNTER = "C"
_UNIT = re.compile(r"^(?P<what>.*?)\s*\((?P<unit>[^()]*)\)$")
_UNITS = frozenset({"MHz", "KB", "MB", "GB", "B", "%", "mV", "us"})
_LARGEST = sys.float_info.max
_PART = "acc_id"  # an argument that says whose sample it is
# Any number that belongs to a key; a way to count the samples that decodes nothing.
_NUMBERS = re.compile(rb'"([^"\\]*)"\s*:\s*-?[0-9]')


class Counters:
    """The samples of a file: one per number in the arguments of its counter events."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._track: dict[object, int] = {}

    def kept(self, batches: Iterable[list[Event]]) -> Iterator[list[Event]]:
        """Passes all other events on."""
        for events in batches:
            if any(event.ph == _COUNTER for event in events):
                self._events += [event for event in events if event.ph == _COUNTER]
                yield [event for event in events if event.ph != _COUNTER]
            else:
                yield events

    def with_tracks(self, tracks: Sequence[Track]) -> list[Track]:
        """All tracks; a process that has only counters gets one of its own."""
        every = list(tracks)
        for number, track in reversed(list(enumerate(every))):
            self._track[track.pid] = number
        for pid in dict.fromkeys(event.pid for event in self._events):
            if pid not in self._track:
                self._track[pid] = len(every)
                every.append(Track(pid, None))
        return every

    @cached_property
    def ts(self) -> npt.NDArray[np.int64]:
        """The time of each event, ns."""
        return times(self._events)

    def table(self) -> pa.Table:
        """The samples, in the order of the file."""
        names, units, at, values = [], [], [], []
        for index, event in enumerate(self._events):
            for name, unit, value in _samples(event):
                names.append(name)
                units.append(unit)
                at.append(index)
                values.append(value)
        place = np.array([self._track.get(event.pid, 0) for event in self._events], np.int64)
        chosen = np.array(at, np.int64)
        columns = [
            pa.array(names, pa.large_string()).cast(NAME),
            pa.array(units, pa.large_string()).cast(NAME),
            pa.array(self.ts[chosen]),
            pa.array(values, pa.float64()),
            pa.array(place[chosen]),
        ]
        return pa.table(columns, schema=COUNTER)

    def count(self) -> int:
        """The number of samples, counted in the text of the arguments."""
        found = Counter(
            key.decode(errors="replace")
            for event in self._events
            for key in _NUMBERS.findall(bytes(event.args))
        )
        return found.total() - found[_PART]


def _samples(event: Event) -> Iterator[tuple[str, str | None, float]]:
    """The name, the unit and the value of each number in the arguments."""
    try:
        given = msgspec.json.decode(event.args)
    except msgspec.DecodeError:
        return
    told = given if isinstance(given, dict) else {}
    numbers = {key: value for key, value in told.items() if _is_sample(value)}
    part = numbers.pop(_PART, None)
    name = str(event.name) if part is None else f"{event.name} ({_PART} {part})"
    for key, value in numbers.items():
        found = _UNIT.match(key)
        unit = found["unit"] if found else key if key in _UNITS else None
        yield (name if len(numbers) == 1 else f"{name} {key}"), unit, float(value)


def _is_sample(value: Any) -> bool:
    """Whether a value is a number that a double can hold."""
    return type(value) in (int, float) and abs(value) <= _LARGEST
