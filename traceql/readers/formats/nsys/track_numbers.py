"""Numbers the tracks of one rank of an export: threads of the host, and streams of GPUs."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.arguments import int64_column
from traceql.readers.coded import DistinctValues, distinct_rows
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.gpu_metrics import gpu_of
from traceql.readers.formats.nsys.processes import pid_of, tid_of
from traceql.readers.formats.nsys.sources import PLACES
from traceql.readers.shown import shown
from traceql.readers.tracks import Track

Int64s = npt.NDArray[np.int64]
_NO_STREAM = -1
# On a GPU, global id, stream and place; tracks of GPU metrics have the number of a type instead.
_Key = tuple[bool, int, int, int]


class TrackNumbers:
    """The tracks in the order of first use. On the host a track is a thread, on a GPU a stream."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._numbers = DistinctValues()

    def of(self, rows: pa.Table, on_gpu: npt.NDArray[np.bool_]) -> Int64s:
        """The track of each event; those not seen before get the next numbers."""
        names = rows.schema.names
        place = rows["place"] if "place" in names else pa.array(np.zeros(rows.num_rows, np.int64))
        columns = (
            on_gpu,
            rows["global_id"].to_numpy(),
            rows["stream"].fill_null(_NO_STREAM).to_numpy(),
            place.to_numpy(),
        )
        keys, at = distinct_rows([column.astype(np.int64) for column in columns])
        known: list[_Key] = [(bool(gpu), g, s, p) for gpu, g, s, p in keys]
        return self._numbers.of(known)[at] if known else np.empty(0, np.int64)

    def of_metrics(self, types: Int64s) -> Int64s:
        """The track of each sample of GPU metrics, by its type: one for each GPU."""
        known, at = np.unique(types, return_inverse=True)
        return self._numbers.of(known.tolist())[at]

    def places(self) -> tuple[pa.Array, pa.Array]:
        """The process and the thread of each track, or the device and the stream; else NULL."""
        found = [self._place(key) for key in self._numbers]
        return int64_column([pid for pid, _ in found]), int64_column([tid for _, tid in found])

    def _place(self, key: _Key | int) -> tuple[int | None, int | None]:
        if isinstance(key, int):
            return None, None
        on_gpu, number, stream, _ = key
        if on_gpu:
            return number, None if stream == _NO_STREAM else stream
        return pid_of(number), tid_of(number)

    @property
    def tracks(self) -> Sequence[Track]:
        """All tracks by number."""
        return [self._track(key) for key in self._numbers]

    def _track(self, key: _Key | int) -> Track:
        if isinstance(key, int):
            return Track(
                f"GPU metrics {key}", None, process_name=f"GPU metrics of GPU {gpu_of(key)}"
            )
        on_gpu, number, stream, place = key
        if on_gpu:
            known = f"stream {stream}" if stream != _NO_STREAM else "all streams"
            return Track(
                number,
                stream if place == 0 else f"{known} {PLACES[place]}",
                process_name=f"GPU {number}",
                thread_name=f"{known} {PLACES[place]}".strip(),
                process_labels=f"GPU {number}",
            )
        pid, tid = pid_of(number), tid_of(number)
        name = self._thread_names.get(number, str(tid))
        return Track(
            pid,
            tid if place == 0 else f"{tid} {PLACES[place]}",
            process_name=self._process_names.get(pid),
            thread_name=f"{name} {PLACES[place]}".strip(),
        )

    @cached_property
    def _process_names(self) -> dict[int, str]:
        if not self._export.has("PROCESSES", "pid", "name"):
            return {}
        rows = self._export.rows("SELECT pid, name FROM PROCESSES WHERE name IS NOT NULL")
        return {pid: shown(name) for pid, name in rows}

    @cached_property
    def _thread_names(self) -> dict[int, str]:
        if not self._export.has("ThreadNames", "nameId", "globalTid"):
            return {}
        rows = self._export.rows(
            "SELECT globalTid, value FROM ThreadNames JOIN StringIds ON id = nameId"
        )
        return {thread: shown(name) for thread, name in rows}
