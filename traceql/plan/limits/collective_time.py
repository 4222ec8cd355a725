"""How long a collective takes on a machine, from its peaks.json."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from traceql.database.loading.peaks import PeaksDocument, peaks_document
from traceql.errors import NotMeasured, PeaksInvalid
from traceql.plan.limits.series import AlphaBeta, Series, Timing, collective_series
from traceql.util.files import Unusable, text


def peaks_file(path: Path) -> PeaksDocument:
    """What it holds.

    Raises:
        PeaksInvalid: it cannot be read or is not one; the message names it.
    """
    try:
        _, peaks = peaks_document(text(path))
    except Unusable as error:
        raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None
    return peaks


Basis = Literal["measured", "interpolated", "extrapolated"]


@dataclass(frozen=True)
class ExpectedTime:
    """The expected duration of a collective.

    Attributes:
        basis: measured, at this size; interpolated, between two sizes; or extrapolated, beyond all.
        algorithm: who carries it out, such as nccl.
        timing: what the durations are of, as in Series.
        error: relative error of the fit at its worst point, for what is extrapolated; else None.
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
        known = {_way(one) for one in by_kernel}
        by_launch = collective_series(peaks, "launch")
        return cls([*by_kernel, *(one for one in by_launch if _way(one) not in known)])

    @classmethod
    def from_file(cls, path: Path) -> "CollectiveTime":
        """Those of a peaks.json.

        Raises:
            PeaksInvalid: it cannot be read.
        """
        return cls.of(peaks_file(path))

    def expected(
        self, op: str, ranks: int, size_bytes: float, *, algorithm: str | None = None
    ) -> ExpectedTime:
        """The duration by a given algorithm, or by the fastest that was measured around the size.

        An algorithm that was not measured beyond a size, such as vLLM's all-reduce, counts beyond
        it only if no other does.

        Args:
            size_bytes: of the whole buffer, at least 1: the output of an all_gather, the input of
                a reduce_scatter.

        Raises:
            NotMeasured: this operation was not measured among as many ranks by that algorithm, or
                at one size alone; the message names what was measured.
        """
        ways = [
            one
            for one in self.series
            if (one.op, one.ranks) == (op, ranks) and algorithm in (None, one.algorithm)
        ]
        usable = [one for one in ways if one.fit or size_bytes in one.ns]
        if not usable:
            raise NotMeasured(self._refusal(op, ranks, algorithm))
        nearest = min(_beyond(one, size_bytes) for one in usable)
        found = [_expected(w, size_bytes) for w in usable if _beyond(w, size_bytes) == nearest]
        return min(found, key=lambda one: one.ns)

    def _refusal(self, op: str, ranks: int, algorithm: str | None) -> str:
        known = sorted({(one.op, one.ranks, one.algorithm) for one in self.series})
        by = f" by {algorithm}" if algorithm else ""
        measured = ", ".join(f"{op} among {ranks} by {how}" for op, ranks, how in known)
        return (
            f"{op}{by} among {ranks} GPUs was not measured at two sizes; measured: "
            f"{measured or 'nothing'}; measure it with traceql experiment peaks measure"
        )


def _way(one: Series) -> tuple[str, int, str, str | None]:
    return one.op, one.ranks, one.algorithm, one.source


def _beyond(way: Series, size_bytes: float) -> float:
    """By which factor a size is beyond the measured ones; 1 within them."""
    smallest, largest = min(way.ns), max(way.ns)
    return max(smallest / size_bytes, size_bytes / largest, 1.0)


def _expected(way: Series, size_bytes: float) -> ExpectedTime:
    sizes = list(way.ns)
    place = bisect_left(sizes, size_bytes)
    if place < len(sizes) and sizes[place] == size_bytes:
        return ExpectedTime(way.ns[sizes[place]], "measured", way.algorithm, way.timing)
    if 0 < place < len(sizes):
        ns = _between(way, sizes[place - 1], sizes[place], size_bytes)
        return ExpectedTime(ns, "interpolated", way.algorithm, way.timing)
    return _extrapolated(way, sizes[0] if place == 0 else sizes[-1], size_bytes)


def _between(way: Series, smaller: int, larger: int, size_bytes: float) -> float:
    """The fit, scaled to pass through both points: how much changes evenly with log(size).

    A straight line between logarithms of time would be far too high where sizes are far apart: the
    latency hides the bytes until they are many.
    """
    share = math.log(size_bytes / smaller) / math.log(larger / smaller)
    low, high = _ratio(way, smaller), _ratio(way, larger)
    return _fitted(way, size_bytes) * low * math.pow(high / low, share)


def _extrapolated(way: Series, last: int, size_bytes: float) -> ExpectedTime:
    """The fit, scaled to go on from the last point: a larger size must not take less time."""
    ns, error = _fitted(way, size_bytes) * _ratio(way, last), _fit(way).largest_error
    return ExpectedTime(ns, "extrapolated", way.algorithm, way.timing, error)


def _ratio(way: Series, size: int) -> float:
    """Measured duration of a size / that of the fit."""
    return way.ns[size] / _fitted(way, size)


def _fitted(way: Series, size_bytes: float) -> float:
    return _fit(way).ns(size_bytes * way.factor)


def _fit(way: Series) -> AlphaBeta:
    if way.fit is None:
        raise ValueError("a series of one size has no fit")
    return way.fit
