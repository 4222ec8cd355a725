"""How long communication takes: measured sizes, else a known start-up and the bytes at the peak."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from traceql.plan.limits.bus import bus_factor
from traceql.plan.limits.collective_time import CollectiveTime
from traceql.plan.limits.series import Series

# Start-ups where none is known for the GPU, ns; docs/advise.md says where they come from.
_ASSUMED_NS = {"all_reduce": 15_000.0, "all_gather": 15_000.0, "send": 7_000.0}
_SAME_AS = {"reduce_scatter": "all_gather"}  # as many bytes move, the other way round
_FAR = 4  # sizes that differ by less than this factor do not tell a bandwidth


class CollectiveNs(Protocol):
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
        series: known sizes of each operation and number of ranks.
        startup_ns: of a small operation, where no size is known.
        link_bytes_per_ns: peak of the links of a GPU in one direction.
        pair_bytes_per_ns: peak between two GPUs where each pair has a link; None otherwise.
    """

    series: Mapping[tuple[str, int], Series]
    startup_ns: Mapping[tuple[str, int], float]
    link_bytes_per_ns: float
    pair_bytes_per_ns: float | None

    def __call__(self, op: str, ranks: int, size_bytes: float) -> float:
        if ranks == 1:
            return 0.0
        known = _SAME_AS.get(op, op)
        series = self.series.get((known, ranks))
        if series:
            return self._by_sizes(series, max(size_bytes, 1.0))
        return self._startup(known, ranks) + self._moving(known, ranks, size_bytes)

    def _by_sizes(self, one: Series, size_bytes: float) -> float:
        """Sizes near each other tell nothing beyond them: then more bytes move at the peak."""
        smallest, largest = min(one.ns), max(one.ns)
        if smallest <= size_bytes <= largest or largest >= _FAR * smallest:
            return CollectiveTime([one]).expected(one.op, one.ranks, size_bytes).ns
        if size_bytes < smallest:
            return one.ns[smallest]
        return one.ns[largest] + self._moving(one.op, one.ranks, size_bytes - largest)

    def _startup(self, op: str, ranks: int) -> float:
        """Of that many ranks, else of the nearest number that is known."""
        known = {size: ns for (name, size), ns in self.startup_ns.items() if name == op}
        if not known:
            return _ASSUMED_NS[op]
        return known[min(known, key=lambda size: (abs(size - ranks), size))]

    def _moving(self, op: str, ranks: int, size_bytes: float) -> float:
        rate = self.link_bytes_per_ns
        if self.pair_bytes_per_ns:
            rate = self.pair_bytes_per_ns * (1 if op == "send" else ranks - 1)
        return size_bytes * bus_factor(op, ranks) / rate
