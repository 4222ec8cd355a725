"""The processes and threads of a file: numbered densely, named as the file names them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.reader.coded import DistinctValues
from traceql.reader.kineto.kineto_json import Event

# Metadata events by name, and the argument that says it.
_OF_PROCESS = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
}
_OF_THREAD = {"thread_name": "name", "thread_sort_index": "sort_index"}
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Track:
    """A pid and a tid, and their names where the file gives them: values of whatever type."""

    pid: Any
    tid: Any
    process_name: Any = None
    thread_name: Any = None
    process_labels: Any = None
    process_sort_index: Any = None
    thread_sort_index: Any = None


class TrackNumbers:
    """Numbers the (pid, tid) pairs of a file from 0."""

    def __init__(self) -> None:
        self._numbers = DistinctValues()

    def of(self, events: Sequence[Event]) -> Int64s:
        """The track of each event, new ones numbered."""
        return self._numbers.of([(e.pid, e.tid) for e in events])

    def numbered(self, pairs: Sequence[tuple[Any, Any]], codes: Int64s) -> Int64s:
        """The track of each of `codes`, which are places in `pairs`; of those alone."""
        distinct, place = np.unique(codes, return_inverse=True)
        return self._numbers.of([pairs[code] for code in distinct.tolist()])[place]

    def named(self, metadata: Sequence[Event]) -> list[Track]:
        """All tracks by number, with what the file's metadata events say of them.

        One that has no events but a name is there too.
        """
        processes: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        threads: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for event in metadata:
            if event.name in _OF_PROCESS:
                processes[event.pid][str(event.name)] = _argument(event, _OF_PROCESS)
            elif event.name in _OF_THREAD:
                threads[event.pid, event.tid][str(event.name)] = _argument(event, _OF_THREAD)
        for pair in threads:
            self._numbers.setdefault(pair, len(self._numbers))
        for pid in processes.keys() - {pid for pid, _ in self._numbers}:
            self._numbers[pid, None] = len(self._numbers)
        return [
            Track(
                pid,
                tid,
                processes[pid].get("process_name"),
                threads[pid, tid].get("thread_name"),
                processes[pid].get("process_labels"),
                processes[pid].get("process_sort_index"),
                threads[pid, tid].get("thread_sort_index"),
            )
            for pid, tid in self._numbers
        ]


def unread(metadata: Sequence[Event]) -> int:
    """How many metadata events say what no column has."""
    return sum(e.name not in _OF_PROCESS and e.name not in _OF_THREAD for e in metadata)


def _argument(event: Event, names: Mapping[str, str]) -> Any:
    try:
        return json.loads(bytes(event.args))[names[str(event.name)]]
    except (ValueError, KeyError, TypeError):
        return None
