"""The processes and threads of a file: numbered densely, named as the file names them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt
from traceql.reader.kineto_json import Event

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Track:
    """A pid and a tid as in the file, of whatever type, and their names where it gives them."""

    pid: Any
    tid: Any
    process_name: str | None = None
    thread_name: str | None = None


class Tracks:
    """Numbers the (pid, tid) pairs of a file from 0."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, Any], int] = {}

    def of(self, events: Sequence[Event]) -> Int64s:
        """The track of each event, new ones numbered.

        Raises:
            TraceCorrupt: an id is neither a number nor a string.
        """
        try:
            pids, pid_code = _coded([e.pid for e in events])
            tids, tid_code = _coded([e.tid for e in events])
        except TypeError:  # unhashable: a list or an object
            raise TraceCorrupt("an event's pid or tid is neither a number nor a string") from None
        pairs, pair_code = np.unique(pid_code * len(tids) + tid_code, return_inverse=True)
        numbers = [
            self._numbers.setdefault(
                (pids[pair // len(tids)], tids[pair % len(tids)]), len(self._numbers)
            )
            for pair in pairs.tolist()
        ]
        return np.array(numbers, np.int64)[pair_code]

    def named(self, metadata: Sequence[Event]) -> list[Track]:
        """All tracks by number, with the names in the file's metadata events."""
        processes: dict[Any, str | None] = {}
        threads: dict[tuple[Any, Any], str | None] = {}
        for event in metadata:
            if event.name == "process_name":
                processes[event.pid] = _name_argument(event)
            elif event.name == "thread_name":
                threads[event.pid, event.tid] = _name_argument(event)
        return [
            Track(pid, tid, processes.get(pid), threads.get((pid, tid)))
            for pid, tid in self._numbers
        ]


def _coded(values: list[Any]) -> tuple[list[Any], Int64s]:
    """The distinct values, and for each value its place among them."""
    place = {value: n for n, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(place.__getitem__, values), np.int64, len(values))
    return list(place), codes


def _name_argument(event: Event) -> str | None:
    try:
        return str(json.loads(bytes(event.args))["name"])
    except (ValueError, KeyError, TypeError):
        return None
