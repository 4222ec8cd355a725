"""Numbers the tracks of a JSON trace from 0, and finds their names."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.readers.coded import DistinctValues, Recoding
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.tracks import Track

# Metadata events by name, and the argument that holds the value.
_OF_PROCESS = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
}
_OF_THREAD = {"thread_name": "name", "thread_sort_index": "sort_index"}
Int64s = npt.NDArray[np.int64]


class TrackNumbers:
    """Numbers the (pid, tid) pairs of a file: 0, 1, 2, ... in the order of first use."""

    def __init__(self) -> None:
        self._numbers = DistinctValues()

    def of(self, events: Sequence[Event]) -> Int64s:
        """The track of each event; new pairs get the next numbers."""
        return self._numbers.of([(e.pid, e.tid) for e in events])

    def recoding(self) -> Recoding:
        """For codes of pairs in another list."""
        return Recoding(self._numbers)

    def numbered(self, pairs: Sequence[tuple[Any, Any]], codes: Int64s) -> Int64s:
        """The track of each pair, given as a position in `pairs`; pairs not used get no track."""
        distinct, place = np.unique(codes, return_inverse=True)
        return self._numbers.of([pairs[code] for code in distinct.tolist()])[place]

    def merged(self, others: "TrackNumbers") -> Int64s:
        """The number here of each track of another part of the file, which may be new."""
        return self._numbers.of(list(others._numbers))

    def known(self, pairs: Sequence[tuple[Any, Any]]) -> Int64s:
        """The track of each pair; -1 for pairs that have none yet."""
        return np.array([self._numbers.get(pair, -1) for pair in pairs], np.int64)

    def named(self, metadata: Sequence[Event]) -> list[Track]:
        """All tracks by number, with what the metadata events of the file say about them.

        They include tracks that have a name but no events.
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
    """The number of metadata events whose content is not in any column."""
    return sum(e.name not in _OF_PROCESS and e.name not in _OF_THREAD for e in metadata)


def _argument(event: Event, names: Mapping[str, str]) -> Any:
    try:
        return json.loads(bytes(event.args))[names[str(event.name)]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
