"""Measures how the clocks of two ranks differ, by the ends of operations that both executed."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_LEAST_OPERATIONS = 5  # a clock is not measured with fewer operations
_TOGETHER_NS = 10_000  # two ranks end a collective within this time
_DRIFT_SPAN_NS = 20_000_000  # no drift is measured over a shorter time
_BETTER = 1.25  # a line counts if it leaves so many times less error than a constant
# Two ranks share a clock unless the ends of operations differ by more than this time, and by more
# than so many times their scatter.
_SHARED_NS = 5_000
_SHARED_SPREADS = 10
_EXACT_NS = 2_000  # the ends of operations may differ by this on a shared clock


@dataclass(frozen=True)
class Difference:
    """How far a rank's clock is ahead of another: offset_ns + drift x (ts - at_ns).

    Attributes:
        drift: ns per ns.
        residual_ns: the error of 9 of 10 ends of operations is no larger than this.
        spread_ns: the median error of the ends of operations.
        span_ns: the time from the first end to the last one.
        operations: the number of operations that it was measured with.
    """

    offset_ns: int
    drift: float
    at_ns: int
    residual_ns: int
    spread_ns: float
    span_ns: int
    operations: int

    def inverse(self) -> "Difference":
        """The difference of the other rank's clock to this rank's clock."""
        return replace(self, offset_ns=-self.offset_ns, drift=-self.drift)

    def after(self, other: "Difference") -> "Difference":
        """The difference to a third rank.

        Args:
            other: the difference to the third rank of the rank that this one was compared with.
        """
        then = other.offset_ns + other.drift * (self.at_ns - other.at_ns)
        return replace(
            self,
            offset_ns=self.offset_ns + round(then),
            drift=self.drift + other.drift,
            residual_ns=self.residual_ns + other.residual_ns,
        )

    @property
    def is_shared(self) -> bool:
        """Whether the difference is so small that the two ranks share a clock."""
        most = abs(self.offset_ns) + abs(self.drift) * self.span_ns / 2
        return most <= max(_SHARED_NS, _SHARED_SPREADS * self.spread_ns)

    @property
    def uncertainty_ns(self) -> int:
        """The error of times if the clock is taken as shared, ns."""
        return abs(self.offset_ns) if abs(self.offset_ns) > _EXACT_NS else 0


def tolerance_ns(residual_ns: int) -> int:
    """The largest difference at which times by two corrected clocks may be the same instant."""
    return _SHARED_NS + 2 * residual_ns


def difference(reference_ends: Ints, ends: Ints, kind: Ints) -> Difference | None:
    """The difference of a rank's clock to the reference, from operations that both executed.

    It is measured with the kind of kernel whose ends scatter least: ranks end a ring up to 10 us
    apart, depending on their place in it, but a one-shot all-reduce within 0.2 us. None if there
    are fewer than 5 operations of each kind.

    Args:
        reference_ends: the end of each operation on the reference, ns.
        ends: the end of the same operations on the rank, ns.
        kind: a number for the kind of kernel of each operation.
    """
    fits = [
        _fit(reference_ends[kind == one], ends[kind == one])
        for one in np.unique(kind)
        if np.count_nonzero(kind == one) >= _LEAST_OPERATIONS
    ]
    return min(fits, key=lambda fit: fit.spread_ns, default=None)


def _fit(reference: Ints, ends: Ints) -> Difference:
    """A constant difference, or one with a drift if a line fits the ends clearly better."""
    ahead = (ends - reference).astype(np.float64)
    at_ns = int(np.median(ends))
    since = (ends - at_ns).astype(np.float64)
    constant = _measured(ahead, 0.0, float(np.median(ahead)), at_ns, since)
    if np.ptp(ends) < _DRIFT_SPAN_NS:
        return constant
    drifting = _measured(ahead, *_line(since, ahead), at_ns, since)
    return drifting if drifting.spread_ns * _BETTER < constant.spread_ns else constant


def _measured(ahead: Floats, drift: float, offset: float, at_ns: int, since: Floats) -> Difference:
    """The difference with this offset and drift, and the errors that it leaves.

    Args:
        ahead: how much later each operation ended on the rank, ns.
        since: the end of each operation, ns since at_ns.
    """
    left = np.abs(ahead - offset - drift * since)
    return Difference(
        offset_ns=round(offset),
        drift=drift,
        at_ns=at_ns,
        residual_ns=round(float(np.quantile(left, 0.9))),
        spread_ns=float(np.median(left)),
        span_ns=int(np.ptp(since)),
        operations=len(ahead),
    )


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of a line through the points, by least squares without outliers."""
    slope, intercept = _through_thirds(x, y)
    for _ in range(3):
        left = np.abs(y - slope * x - intercept)
        close = left <= max(3 * float(np.median(left)), 1.0)
        slope, intercept = np.polyfit(x[close], y[close], 1)
    return float(slope), float(intercept)


def _through_thirds(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of the line through the medians of the first and the last third."""
    third = max(1, len(x) // 3)
    x0, x1 = float(np.median(x[:third])), float(np.median(x[-third:]))
    y0, y1 = float(np.median(y[:third])), float(np.median(y[-third:]))
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    return slope, y0 - slope * x0


def ending_together(reference_ends: Ints, ends: Ints) -> int:
    """The number of operations that end together, apart from a constant offset and perhaps a drift.

    This is the test for whether the operations of two ranks are paired in the right way.
    """
    ahead = (ends - reference_ends).astype(np.float64)
    agreeing = _within(ahead)
    if np.ptp(reference_ends) < _DRIFT_SPAN_NS or len(ahead) < 2 * _LEAST_OPERATIONS:
        return agreeing
    since = (reference_ends - reference_ends[0]).astype(np.float64)
    slope, intercept = _through_thirds(since, ahead)
    return max(agreeing, _within(ahead - slope * since - intercept))


def _within(ahead: Floats) -> int:
    """The largest number of values that lie within _TOGETHER_NS of each other."""
    values = np.sort(ahead)
    counts = np.searchsorted(values, values + _TOGETHER_NS, "right") - np.arange(len(values))
    return int(counts.max(initial=0))
