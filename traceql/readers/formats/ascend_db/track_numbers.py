"""Numbers the tracks of a database: threads of the host, streams, communicators and counters."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.arguments import int64_column
from traceql.readers.coded import DistinctValues
from traceql.readers.formats.ascend_db.event import Place
from traceql.readers.tracks import Track

Int64s = npt.NDArray[np.int64]
_NONE = -1
# Names and order of the processes, as the text export has them.
_PROCESSES = {
    Place.PYTHON: ("Python", 0),
    Place.RANGES: ("Python", 0),
    Place.CANN: ("CANN", 7),
    Place.HARDWARE: ("Ascend Hardware", 13),
    Place.GROUP: ("Communication", 17),
    Place.PLANE: ("Communication", 17),
    Place.OVERLAP: ("Overlap Analysis", 23),
    Place.MEMORY: ("NPU MEM", 19),
}
_ON_HOST = (Place.PYTHON, Place.RANGES, Place.CANN)
_OVERLAPS = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
_COUNTERS_AFTER = 24
_Key = tuple[int, int, int, int]  # place, pid, tid, group


class TrackNumbers:
    """The tracks in the order of first use."""

    def __init__(self) -> None:
        self._numbers = DistinctValues()
        self._groups = DistinctValues()  # communicators, in the order of first use

    def of(self, rows: pa.Table) -> Int64s:
        """The track of each event; those not seen before get the next numbers."""
        columns = [
            rows[name].fill_null(_NONE).to_numpy() for name in ("place", "pid", "tid", "group")
        ]
        at = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            values, code = np.unique(column, return_inverse=True)
            _, at = np.unique(at * max(len(values), 1) + code, return_inverse=True)
        _, first = np.unique(at, return_index=True)
        keys: list[_Key] = [
            (a, b, c, d)
            for a, b, c, d in zip(*(col[first].tolist() for col in columns), strict=True)
        ]
        return self._numbers.of(keys)[at] if keys else np.empty(0, np.int64)

    def of_counters(self, kind: str) -> int:
        """The track of the counters of a kind."""
        return int(self._numbers.of([kind])[0])

    def places(self) -> tuple[pa.Array, pa.Array]:
        """The process and the thread of each track, or the device and the stream; else NULL."""
        found = [(_NONE, _NONE) if isinstance(key, str) else key[1:3] for key in self._numbers]
        pids, tids = ([None if n[i] == _NONE else n[i] for n in found] for i in (0, 1))
        return int64_column(pids), int64_column(tids)

    @property
    def tracks(self) -> Sequence[Track]:
        """All tracks by number."""
        return [self._track(key) for key in self._numbers]

    def _track(self, key: _Key | str) -> Track:
        if isinstance(key, str):
            return Track(key, None, process_name=key, process_sort_index=_COUNTERS_AFTER)
        place, pid, tid, group = key
        name, order = _PROCESSES[Place(place)]
        if place in _ON_HOST:
            thread = f"Thread {tid}" + (" ranges" if place == Place.RANGES else "")
            return Track(
                pid if place != Place.CANN else f"{pid} CANN",
                tid if place != Place.RANGES else f"{tid} ranges",
                process_name=name,
                thread_name=thread,
                process_labels="CPU",
                process_sort_index=order,
                thread_sort_index=tid,
            )
        thread = self._device_thread(Place(place), tid, group)
        return Track(
            f"NPU {pid} {name}",
            thread,
            process_name=name,
            thread_name=thread,
            process_labels=f"NPU {pid}",
            process_sort_index=order,
            thread_sort_index=tid if tid >= 0 else None,
        )

    def _device_thread(self, place: Place, tid: int, group: int) -> str:
        if place == Place.HARDWARE:
            return f"Stream {tid}"
        if place == Place.OVERLAP:
            return _OVERLAPS[tid] if 0 <= tid < len(_OVERLAPS) else str(tid)
        if place == Place.MEMORY:
            return "allocations"
        number = self._groups[group]
        return f"Group {number} " + ("Communication" if place == Place.GROUP else f"Plane {tid}")
