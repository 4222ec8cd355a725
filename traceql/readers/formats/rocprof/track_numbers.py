"""Numbers the tracks of one rank: threads of the host, and streams of its GPU."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.arguments import int64_column
from traceql.readers.coded import DistinctValues
from traceql.readers.formats.rocprof.recording import PLACES, Process
from traceql.readers.tracks import Track

Int64s = npt.NDArray[np.int64]
_NONE = -1
_COUNTERS = "counters"
_Key = tuple[int, bool, int, int, int]  # process, on a GPU, GPU or thread, stream, place


class TrackNumbers:
    """The tracks in the order of first use.

    Args:
        processes: all processes of the recording.
    """

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._numbers = DistinctValues()

    def of(self, rows: pa.Table, process: Int64s) -> Int64s:
        """The track of each row of a rank; those not seen before get the next numbers.

        Args:
            rows: a table with the columns `on_gpu`, `device`, `thread`, `lane` and `place`, or
                those of them that it has.
            process: the position of the process of each row.
        """
        on_gpu = _values(rows, "on_gpu", 0)
        number = np.where(on_gpu == 1, _values(rows, "device"), _values(rows, "thread"))
        stream = np.where(on_gpu == 1, _values(rows, "lane"), _NONE)
        columns = [process, on_gpu, number, stream, _values(rows, "place", 0)]
        first, at = _distinct(columns)
        keys: list[_Key] = [
            (p, bool(gpu), n, s, place)
            for p, gpu, n, s, place in zip(*(c[first].tolist() for c in columns), strict=True)
        ]
        return self._numbers.of(keys)[at] if keys else np.empty(0, np.int64)

    def of_counters(self) -> int:
        """The track of the counters."""
        return int(self._numbers.of([_COUNTERS])[0])

    def places(self) -> tuple[pa.Array, pa.Array]:
        """The process and the thread of each track, or the GPU and the stream; else NULL."""
        found = [self._place(key) for key in self._numbers]
        return int64_column([pid for pid, _ in found]), int64_column([tid for _, tid in found])

    @property
    def tracks(self) -> Sequence[Track]:
        """All tracks by number."""
        return [self._track(key) for key in self._numbers]

    def _place(self, key: _Key | str) -> tuple[int | None, int | None]:
        if isinstance(key, str):
            return None, None
        process, on_gpu, number, stream, _ = key
        if on_gpu:
            return _known(number), _known(stream)
        return self._processes[process].pid, _known(number)

    def _track(self, key: _Key | str) -> Track:
        if isinstance(key, str):
            return Track(key, None, process_name=key)
        process, on_gpu, number, stream, place = key
        pid, tid = self._place(key)
        if on_gpu:
            gpu = "GPU" if number == _NONE else f"GPU {number}"
            name = "no stream" if stream == _NONE else f"stream {stream}"
            return Track(pid, tid, gpu, name, process_labels=gpu)
        name = "unknown thread" if number == _NONE else str(number)
        return Track(
            pid,
            tid if place == 0 else f"{name} {PLACES[place]}",
            process_name=self._processes[process].name,
            thread_name=f"{name} {PLACES[place]}".strip(),
        )


def _distinct(columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """A row of each combination of values, in their order, and which of them each row has."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, at = np.unique(column, return_inverse=True)
        _, code = np.unique(code * max(1, len(values)) + at, return_inverse=True)
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    return first, code


def _known(number: int) -> int | None:
    return None if number == _NONE else number


def _values(rows: pa.Table, name: str, otherwise: int = _NONE) -> Int64s:
    """A column, with a number in place of NULL and of a column that is not there."""
    if name not in rows.schema.names:
        return np.full(rows.num_rows, otherwise, np.int64)
    values: Int64s = rows[name].fill_null(otherwise).to_numpy().astype(np.int64)
    return values
