"""A curve of three parts through measured times: fixed, linear and context.

The coefficients are not negative, because no part of a step takes less than no time. They have the
least sum of squared relative errors: a millisecond counts more at 5 ms than at 500.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

PARTS = 3
LEAST_POINTS = PARTS + 1  # as many as parts would always fit


@dataclass(frozen=True)
class Curve:
    """The coefficients, and how far the curve is from the points.

    Attributes:
        coefficients: of the parts.
        errors: curve / measured - 1 of each point.
        unseen: median distance of a point from the curve through the others; None if they are too
            few.
    """

    coefficients: Matrix
    errors: Sequence[float]
    unseen: float | None


def fitted(parts: Sequence[Sequence[float]], times: Sequence[float]) -> Curve:
    """The curve through points.

    Args:
        parts: for each point, what its fixed, linear and context coefficient are multiplied by.
        times: measured times, all above 0; LEAST_POINTS or more.
    """
    rows, measured = np.array(parts, dtype=np.float64), np.array(times, dtype=np.float64)
    found = _coefficients(rows, measured)
    unseen = None
    if len(times) > LEAST_POINTS:
        unseen = median(_error_unseen(rows, measured, place) for place in range(len(times)))
    return Curve(found, [float(e) for e in rows @ found / measured - 1], unseen)


def _error_unseen(rows: Matrix, times: Matrix, place: int) -> float:
    others = np.arange(len(times)) != place
    found = _coefficients(rows[others], times[others])
    return abs(float(rows[place] @ found / times[place] - 1))


def _coefficients(rows: Matrix, times: Matrix) -> Matrix:
    """Non-negative least squares: of all subsets of the parts, the best without a negative one."""
    relative = rows / times[:, None]
    scale = np.where(relative.max(axis=0) > 0, relative.max(axis=0), 1.0)
    relative = relative / scale
    best, best_error = np.zeros(rows.shape[1]), np.inf
    for count in range(1, rows.shape[1] + 1):
        for chosen in combinations(range(rows.shape[1]), count):
            some, *_ = np.linalg.lstsq(relative[:, chosen], np.ones(len(times)), rcond=None)
            error = float(np.sum((relative[:, chosen] @ some - 1) ** 2))
            if (some >= 0).all() and error < best_error:
                best, best_error = np.zeros(rows.shape[1]), error
                best[list(chosen)] = some
    result: Matrix = best / scale
    return result
