"""How long a collective takes on a machine, from the measured sizes in its peaks.json."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from traceql.database.loading.inputs import Collective, PeaksDocument, peaks_document
from traceql.errors import NotMeasured, PeaksInvalid
from traceql.util.files import Unusable, read_text

COPIES = ("peer_copy", "peer_copy_both")
_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 80  # 0.618^80 is below what floats distinguish

Basis = Literal["measured", "interpolated", "extrapolated"]
Timing = Literal["launch", "kernel"]
_Numbers = NDArray[np.float64]


def peaks_file(path: Path) -> PeaksDocument:
    """The content of a peaks.json; raises PeaksInvalid if it cannot be read or is not one."""
    try:
        return peaks_document(read_text(path))[1]
    except Unusable as error:
        raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None


def bus_factor(op: str, ranks: int) -> float:
    """The factor of nccl-tests (doc/PERFORMANCE.md) from algorithm to bus bandwidth."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0


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
        """Asymptotic bus bandwidth; None if larger buffers take no longer."""
        return 1 / self.ns_per_byte if self.ns_per_byte else None


def alpha_beta(bus_bytes: Sequence[float], ns: Sequence[float]) -> AlphaBeta | None:
    """The fit with the least sum of relative errors; None for fewer than two sizes.

    Relative errors give small and large sizes the same weight; absolute ones, not squared, limit
    the influence of outliers. Neither the latency nor the time per byte is negative.
    """
    if len(set(bus_bytes)) < 2:
        return None
    sizes, durations = np.asarray(bus_bytes, float), np.asarray(ns, float)

    def errors(alpha_ns: float) -> _Numbers:
        slope = _ns_per_byte(sizes, durations, alpha_ns)
        relative: _Numbers = np.abs((alpha_ns + slope * sizes) / durations - 1)
        return relative

    alpha_ns = _minimum(lambda alpha: float(errors(alpha).sum()), float(durations.max()))
    return AlphaBeta(alpha_ns, _ns_per_byte(sizes, durations, alpha_ns), errors(alpha_ns).tolist())


def _ns_per_byte(sizes: _Numbers, durations: _Numbers, alpha_ns: float) -> float:
    """The best slope for a latency: the weighted median of the slopes of the points."""
    slopes, weights = (durations - alpha_ns) / sizes, sizes / durations
    order = np.argsort(slopes)
    summed = np.cumsum(weights[order])
    middle = int(np.searchsorted(summed, summed[-1] / 2))
    return max(0.0, float(slopes[order[middle]]))


def _minimum(loss: Callable[[float], float], highest: float) -> float:
    """The minimum of a convex function between 0 and `highest`, by golden-section search."""
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


@dataclass(frozen=True)
class Series:
    """Durations of one operation by size, for one number of ranks and one algorithm.

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
        sizes = groupby(sorted(points), lambda point: point[0])
        ns = {size: median(ns for _, ns in same) for size, same in sizes}
        fit = alpha_beta([size * bus_factor(op, ranks) for size in ns], list(ns.values()))
        return cls(op, ranks, algorithm, source, timing, ns, fit)

    @property
    def factor(self) -> float:
        return bus_factor(self.op, self.ranks)

    @property
    def key(self) -> tuple[str, int, str, str]:
        return self.op, self.ranks, self.algorithm, self.source or ""

    def distance(self, size_bytes: float) -> float:
        """The factor by which a size is outside the measured ones; 1 within them."""
        return max(min(self.ns) / size_bytes, size_bytes / max(self.ns), 1.0)

    def expected(self, size_bytes: float) -> "ExpectedTime":
        """The duration at a size; sizes that were not measured need a fit."""
        sizes = list(self.ns)
        place = bisect_left(sizes, size_bytes)
        if place < len(sizes) and sizes[place] == size_bytes:
            return ExpectedTime(self.ns[sizes[place]], "measured", self.algorithm, self.timing)
        if self.fit is None:
            raise ValueError("a series of one size has no fit")
        ns = self.fit.ns(size_bytes * self.factor)
        if 0 < place < len(sizes):
            smaller, larger = sizes[place - 1], sizes[place]
            # The fit, scaled to pass through both points: the scale changes evenly with log(size).
            # A straight line between logarithms of time would be far too high between distant
            # sizes, because the latency hides the bytes of small ones.
            share = math.log(size_bytes / smaller) / math.log(larger / smaller)
            low, high = self._ratio(smaller), self._ratio(larger)
            ns *= low * math.pow(high / low, share)
            return ExpectedTime(ns, "interpolated", self.algorithm, self.timing)
        # Scaled to continue from the last point: a larger size must not take less time.
        ns *= self._ratio(sizes[0] if place == 0 else sizes[-1])
        error = max(self.fit.errors)
        return ExpectedTime(ns, "extrapolated", self.algorithm, self.timing, error)

    def _ratio(self, size: int) -> float:
        """Measured duration of a size / that of the fit."""
        assert self.fit
        return self.ns[size] / self.fit.ns(size * self.factor)


def collective_series(peaks: PeaksDocument, timing: Timing) -> list[Series]:
    """The series that have durations of this timing at each size, without copies between GPUs."""

    def key(row: Collective) -> tuple[str, int, str, str]:
        return row.op, row.ranks, row.algorithm, row.source or ""

    series = []
    measured = [one for one in peaks.collectives if one.op not in COPIES]
    for (op, ranks, algorithm, source), same in groupby(sorted(measured, key=key), key):
        points = [(row.bytes, row.ns if timing == "launch" else row.kernel_ns) for row in same]
        known = [(size, ns) for size, ns in points if ns is not None]
        if len(known) == len(points):
            one = op, ranks, algorithm, timing, known
            series.append(Series.of_points(*one, source=source or None))
    return series


@dataclass(frozen=True)
class ExpectedTime:
    """The expected duration of a collective.

    Attributes:
        basis: measured, at this size; interpolated, between two sizes; or extrapolated, beyond all.
        algorithm: such as nccl.
        timing: as in Series.
        error: relative error of the fit at its worst point, if extrapolated; else None.
    """

    ns: float
    basis: Basis
    algorithm: str
    timing: Timing
    error: float | None = None


@dataclass(frozen=True)
class CollectiveTime:
    """Durations of collectives on one machine."""

    series: Sequence[Series]

    @classmethod
    def of(cls, peaks: PeaksDocument) -> "CollectiveTime":
        """Durations of kernels where each size has one; else from launch to launch."""
        by_kernel = collective_series(peaks, "kernel")
        known = {one.key for one in by_kernel}
        by_launch = collective_series(peaks, "launch")
        return cls([*by_kernel, *(one for one in by_launch if one.key not in known)])

    @classmethod
    def from_file(cls, path: Path) -> "CollectiveTime":
        """Those of a peaks.json; raises PeaksInvalid if it cannot be read."""
        return cls.of(peaks_file(path))

    def expected(
        self, op: str, ranks: int, size_bytes: float, *, algorithm: str | None = None
    ) -> ExpectedTime:
        """The duration by a given algorithm, or by the fastest that was measured around the size.

        An algorithm is extrapolated only if no other one was measured nearer to the size.

        Args:
            size_bytes: of the whole buffer, at least 1: the output of an all_gather, the input of
                a reduce_scatter.

        Raises:
            NotMeasured: this operation was not measured among as many ranks by that algorithm, or
                at one size alone; the message names what was measured.
        """
        usable = [
            one
            for one in self.series
            if (one.op, one.ranks) == (op, ranks)
            and algorithm in (None, one.algorithm)
            and (one.fit or size_bytes in one.ns)
        ]
        if not usable:
            known = sorted({(one.op, one.ranks, one.algorithm) for one in self.series})
            measured = ", ".join(f"{op} among {ranks} by {how}" for op, ranks, how in known)
            by = f" by {algorithm}" if algorithm else ""
            raise NotMeasured(
                f"{op}{by} among {ranks} GPUs was not measured at two sizes; measured: "
                f"{measured or 'nothing'}; measure it with traceql experiment peaks measure"
            )
        nearest = min(one.distance(size_bytes) for one in usable)
        near = [one.expected(size_bytes) for one in usable if one.distance(size_bytes) == nearest]
        return min(near, key=lambda one: one.ns)
