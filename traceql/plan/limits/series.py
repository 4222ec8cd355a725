"""Measured durations of a collective or copy by size, and the latency and bandwidth that fit."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from traceql.database.loading.peaks import Collective, PeaksDocument


def bus_factor(op: str, ranks: int) -> float:
    """The factor of nccl-tests (doc/PERFORMANCE.md) from algorithm to bus bandwidth."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0


_Numbers = NDArray[np.float64]

_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 80  # 0.618^80 is below what floats distinguish


@dataclass(frozen=True)
class AlphaBeta:
    """ns = alpha_ns + ns_per_byte * bytes over the links.

    Attributes:
        errors: |fitted / measured - 1| of each point, in the order of the points.
    """

    alpha_ns: float
    ns_per_byte: float
    errors: Sequence[float]

    def ns(self, bus_bytes: float) -> float:
        return self.alpha_ns + self.ns_per_byte * bus_bytes

    @property
    def bandwidth_gbps(self) -> float | None:
        """Bus bandwidth of a buffer without end; None if more bytes take no longer."""
        return 1 / self.ns_per_byte if self.ns_per_byte else None

    @property
    def median_error(self) -> float:
        return median(self.errors)

    @property
    def largest_error(self) -> float:
        return max(self.errors)


def alpha_beta(bus_bytes: Sequence[float], ns: Sequence[float]) -> AlphaBeta | None:
    """The fit with the least sum of relative errors; None for fewer than two sizes.

    Relative errors give small and large sizes the same weight, and absolute ones, not squared, let
    a few outliers not matter. Neither the latency nor the time of a byte is negative.
    """
    if len(set(bus_bytes)) < 2:
        return None
    sizes, durations = np.asarray(bus_bytes, float), np.asarray(ns, float)

    def sum_of_errors(alpha_ns: float) -> float:
        slope = _ns_per_byte(sizes, durations, alpha_ns)
        return float(_errors(sizes, durations, alpha_ns, slope).sum())

    alpha_ns = _least(sum_of_errors, float(durations.max()))
    slope = _ns_per_byte(sizes, durations, alpha_ns)
    return AlphaBeta(alpha_ns, slope, _errors(sizes, durations, alpha_ns, slope).tolist())


def _errors(sizes: _Numbers, durations: _Numbers, alpha_ns: float, slope: float) -> _Numbers:
    return np.abs((alpha_ns + slope * sizes) / durations - 1)


def _ns_per_byte(sizes: _Numbers, durations: _Numbers, alpha_ns: float) -> float:
    """The best slope for a latency: the median of each point's own, weighted by its pull."""
    slopes, pulls = (durations - alpha_ns) / sizes, sizes / durations
    order = np.argsort(slopes)
    summed = np.cumsum(pulls[order])
    middle = int(np.searchsorted(summed, summed[-1] / 2))
    return max(0.0, float(slopes[order[middle]]))


def _least(loss: Callable[[float], float], highest: float) -> float:
    """Where a convex function is least between 0 and `highest`, by golden sections."""
    low, high = 0.0, highest
    left, right = high - _GOLDEN * high, _GOLDEN * high
    at_left, at_right = loss(left), loss(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2


Rows = list[dict[str, Any]]

COPIES = ("peer_copy", "peer_copy_both")


def copies(peaks: PeaksDocument) -> Rows:
    """A row for each copy from one GPU to another; bytes and GB/s are of one direction."""
    found = [one for one in peaks.collectives if one.op in COPIES]
    return [
        {
            "op": one.op,
            "algorithm": one.algorithm,
            "source": one.source,
            "from_gpu": pair[0],
            "to_gpu": pair[1],
            "bytes": one.bytes,
            "ns": one.ns,
            "bandwidth_gbps": one.bytes / one.ns,
        }
        for one in found
        for pair in [_pair(one)]
    ]


def _pair(copy: Collective) -> tuple[int, int]:
    """Version 1 measured the first two GPUs alone, and did not say so."""
    if copy.from_gpu is None or copy.to_gpu is None:
        return 0, 1
    return copy.from_gpu, copy.to_gpu


def copy_matrices(peaks: PeaksDocument) -> dict[str, Rows]:
    """By title, GB/s from each GPU to each other, the best of all sizes."""
    best: dict[str, dict[tuple[int, int], float]] = {}
    for row in copies(peaks):
        is_both = row["op"] == "peer_copy_both"
        ways = "each of both directions at once" if is_both else "one direction"
        by = "by a kernel" if row["algorithm"] == "copy_kernel" else "by copy engines"
        measured = f", {row['source']}" if row["source"] else ""
        matrix = best.setdefault(f"{ways}, {by}{measured}", {})
        pairs = [(row["from_gpu"], row["to_gpu"])]
        for pair in [*pairs, *(pair[::-1] for pair in pairs if is_both)]:
            matrix[pair] = max(matrix.get(pair, 0.0), row["bandwidth_gbps"])
    return {title: _matrix(matrix) for title, matrix in best.items()}


def _matrix(gbps: Mapping[tuple[int, int], float]) -> Rows:
    sources = sorted({source for source, _ in gbps})
    targets = sorted({target for _, target in gbps})
    return [
        {
            "from": f"GPU {source}",
            **{f"to_gpu_{target}_gbps": gbps.get((source, target)) for target in targets},
        }
        for source in sources
    ]


def host_copies(peaks: PeaksDocument) -> Rows:
    """A row for each copy between the host and a GPU; bytes and GB/s are of one direction."""
    return [
        {
            "op": one.op,
            "gpu": one.gpu,
            "algorithm": one.algorithm,
            "source": one.source,
            "bytes": one.bytes,
            "ns": one.ns,
            "bandwidth_gbps": one.bytes / one.ns,
        }
        for one in peaks.host_copies
    ]


Timing = Literal["launch", "kernel"]


@dataclass(frozen=True)
class Series:
    """One way to carry out an operation among so many ranks.

    Attributes:
        source: the program that measured it; None for traceql.
        timing: launch, from one launch to the next; kernel, of the kernel on the rank that began it
            last, as a trace shows its transfer.
        ns: by size of the buffer in bytes, ascending; the median of equal sizes.
        fit: None for fewer than two sizes.
    """

    op: str
    ranks: int
    algorithm: str
    source: str | None
    timing: Timing
    ns: Mapping[int, float]
    fit: AlphaBeta | None

    @classmethod
    def of_points(
        cls,
        op: str,
        ranks: int,
        algorithm: str,
        timing: Timing,
        points: Iterable[tuple[int, float]],
        *,
        source: str | None = None,
    ) -> "Series":
        """The series of (bytes, ns) in any order."""
        ns, factor = _by_size(points), bus_factor(op, ranks)
        fit = alpha_beta([size * factor for size in ns], list(ns.values()))
        return cls(op, ranks, algorithm, source, timing, ns, fit)

    @property
    def factor(self) -> float:
        return bus_factor(self.op, self.ranks)


def collective_series(peaks: PeaksDocument, timing: Timing) -> list[Series]:
    """All series with durations of this timing at each size; copies between two GPUs are not."""
    found = [one for one in peaks.collectives if one.op not in COPIES]
    return [
        series
        for _, rows in groupby(sorted(found, key=_key), _key)
        if (series := _series(list(rows), timing))
    ]


def _key(row: Collective) -> tuple[str, int, str, str]:
    return row.op, row.ranks, row.algorithm, row.source or ""


def _series(rows: list[Collective], timing: Timing) -> Series | None:
    durations = [row.ns if timing == "launch" else row.kernel_ns for row in rows]
    known = [one for one in durations if one is not None]
    if len(known) < len(rows):
        return None
    points = [(row.bytes, one) for row, one in zip(rows, known, strict=True)]
    first = rows[0]
    return Series.of_points(
        first.op, first.ranks, first.algorithm, timing, points, source=first.source
    )


def _by_size(points: Iterable[tuple[int, float]]) -> dict[int, float]:
    ordered = sorted(points)
    return {
        size: median(ns for _, ns in same) for size, same in groupby(ordered, lambda one: one[0])
    }
