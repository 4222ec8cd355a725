"""How two ranks' clocks differ, from the ends of the operations that they did together."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_LEAST_OPERATIONS = 5
# Ends of one collective on two ranks are closer than this.
_TOGETHER_NS = 10_000
_DRIFT_SPAN_NS = 20_000_000
_BETTER = 1.25  # a line must leave so many times less than a constant
# Clocks of one host are shared. Ends say otherwise only where they differ by more than this, and
# by more than so many times what they scatter.
_SHARED_NS = 5_000
_SHARED_SPREADS = 10
_EXACT_NS = 2_000  # differences that ends of a shared clock have too


@dataclass(frozen=True)
class Difference:
    """How a rank's clock runs against another's: offset_ns + drift x (ts - at_ns) ahead of it.

    spread_ns is what half of the ends still differ by, residual_ns what 9 of 10 do; span_ns the
    time from the first of them to the last.
    """

    offset_ns: int
    drift: float
    at_ns: int
    residual_ns: int
    spread_ns: float
    span_ns: int
    operations: int

    def inverse(self) -> "Difference":
        return replace(self, offset_ns=-self.offset_ns, drift=-self.drift)

    def after(self, other: "Difference") -> "Difference":
        """Against what `other` is measured against, where this is measured against other's rank."""
        then = other.offset_ns + other.drift * (self.at_ns - other.at_ns)
        return replace(
            self,
            offset_ns=self.offset_ns + round(then),
            drift=self.drift + other.drift,
            residual_ns=self.residual_ns + other.residual_ns,
        )

    @property
    def is_shared(self) -> bool:
        most = abs(self.offset_ns) + abs(self.drift) * self.span_ns / 2
        return most <= max(_SHARED_NS, _SHARED_SPREADS * self.spread_ns)

    @property
    def uncertainty_ns(self) -> int:
        """What a shared clock may be off by all the same."""
        return abs(self.offset_ns) if abs(self.offset_ns) > _EXACT_NS else 0


def tolerance_ns(residual_ns: int) -> int:
    """How far apart times by two corrected clocks may be and still be the same instant."""
    return _SHARED_NS + 2 * residual_ns


def difference(reference_ends: Ints, ends: Ints, kind: Ints) -> Difference | None:
    """From operations known to be the same, by the kind of kernel that ends most sharply.

    Rings end by a rank's place in the ring, up to 10 us apart; one-shot all-reduces together,
    within 0.2 us. None with fewer than 5 operations of a kind.
    """
    fits = [
        _fit(reference_ends[kind == one], ends[kind == one])
        for one in np.unique(kind)
        if np.count_nonzero(kind == one) >= _LEAST_OPERATIONS
    ]
    return min(fits, key=lambda fit: fit.spread_ns, default=None)


def _fit(reference: Ints, ends: Ints) -> Difference:
    """A constant, or a line where the ends follow one clearly better."""
    ahead = (ends - reference).astype(np.float64)
    at_ns = int(np.median(ends))
    since = (ends - at_ns).astype(np.float64)
    constant = _measured(ahead, 0.0, float(np.median(ahead)), at_ns, since)
    if np.ptp(ends) < _DRIFT_SPAN_NS:
        return constant
    drifting = _measured(ahead, *_line(since, ahead), at_ns, since)
    return drifting if drifting.spread_ns * _BETTER < constant.spread_ns else constant


def _measured(ahead: Floats, drift: float, offset: float, at_ns: int, since: Floats) -> Difference:
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
    """Slope and intercept by least squares over what stays close to the line."""
    slope, intercept = _through_thirds(x, y)
    for _ in range(3):
        left = np.abs(y - slope * x - intercept)
        close = left <= max(3 * float(np.median(left)), 1.0)
        slope, intercept = np.polyfit(x[close], y[close], 1)
    return float(slope), float(intercept)


def _through_thirds(x: Floats, y: Floats) -> tuple[float, float]:
    """The line through the medians of the first and the last third."""
    third = max(1, len(x) // 3)
    x0, x1 = float(np.median(x[:third])), float(np.median(x[-third:]))
    y0, y1 = float(np.median(y[:third])), float(np.median(y[-third:]))
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    return slope, y0 - slope * x0


def ending_together(reference_ends: Ints, ends: Ints) -> int:
    """How many ends agree, but for a constant, or a constant and a drift: the test of a pairing."""
    ahead = (ends - reference_ends).astype(np.float64)
    agreeing = _within(ahead)
    if np.ptp(reference_ends) < _DRIFT_SPAN_NS or len(ahead) < 2 * _LEAST_OPERATIONS:
        return agreeing
    since = (reference_ends - reference_ends[0]).astype(np.float64)
    slope, intercept = _through_thirds(since, ahead)
    return max(agreeing, _within(ahead - slope * since - intercept))


def _within(ahead: Floats) -> int:
    """The most values that lie within _TOGETHER_NS of each other."""
    values = np.sort(ahead)
    counts = np.searchsorted(values, values + _TOGETHER_NS, "right") - np.arange(len(values))
    return int(counts.max(initial=0))
