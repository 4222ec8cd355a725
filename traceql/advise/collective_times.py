"""How long communication takes: measured sizes, else a known start-up and the bytes at the peak."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

# Start-ups where none is known for the GPU, ns; docs/advise.md says where they come from.
_ASSUMED_NS = {"all_reduce": 15_000.0, "all_gather": 15_000.0, "send": 7_000.0}
_SAME_AS = {"reduce_scatter": "all_gather"}  # as many bytes move, the other way round


class CollectiveTime(Protocol):
    def __call__(self, op: str, ranks: int, size_bytes: float) -> float:
        """Duration of an operation on so many ranks without waiting, ns.

        Args:
            op: all_reduce, all_gather, reduce_scatter or send.
            size_bytes: of the whole buffer.
        """
        ...


@dataclass(frozen=True)
class CollectiveTimes:
    """The times of one kind of GPU.

    Attributes:
        points: known (bytes, ns) of each operation and number of ranks, by bytes.
        startup_ns: of a small operation, where no size is known.
        link_bytes_per_ns: peak of the links of a GPU in one direction.
        pair_bytes_per_ns: peak between two GPUs where each pair has a link; None otherwise.
    """

    points: Mapping[tuple[str, int], Sequence[tuple[float, float]]]
    startup_ns: Mapping[tuple[str, int], float]
    link_bytes_per_ns: float
    pair_bytes_per_ns: float | None

    def __call__(self, op: str, ranks: int, size_bytes: float) -> float:
        if ranks == 1:
            return 0.0
        known = _SAME_AS.get(op, op)
        points = self.points.get((known, ranks))
        if points:
            return self._between(points, known, ranks, size_bytes)
        return self._startup(known, ranks) + self._moving(known, ranks, size_bytes)

    def _between(
        self, points: Sequence[tuple[float, float]], op: str, ranks: int, size_bytes: float
    ) -> float:
        """Below the smallest size as that one; beyond the largest, more bytes at the peak."""
        place = bisect_left(points, size_bytes, key=lambda point: point[0])
        if place == 0:
            return points[0][1]
        low_bytes, low_ns = points[place - 1]
        if place == len(points):
            return low_ns + self._moving(op, ranks, size_bytes - low_bytes)
        high_bytes, high_ns = points[place]
        share = (size_bytes - low_bytes) / (high_bytes - low_bytes)
        return low_ns + share * (high_ns - low_ns)

    def _startup(self, op: str, ranks: int) -> float:
        """Of that many ranks, else of the nearest number that is known."""
        known = {size: ns for (name, size), ns in self.startup_ns.items() if name == op}
        if not known:
            return _ASSUMED_NS[op]
        return known[min(known, key=lambda size: (abs(size - ranks), size))]

    def _moving(self, op: str, ranks: int, size_bytes: float) -> float:
        factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks}
        rate = self.link_bytes_per_ns
        if self.pair_bytes_per_ns:
            rate = self.pair_bytes_per_ns * (1 if op == "send" else ranks - 1)
        return size_bytes * factors.get(op, 1.0) / rate
