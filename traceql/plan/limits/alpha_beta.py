"""Fits the duration of communication: a latency, and bytes at a bandwidth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

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
