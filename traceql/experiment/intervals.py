"""At which repeats the interval of their median begins and ends: exact, for any distribution.

The probability that the k-th lowest and the k-th highest of n values have the median of the
distribution between them is 1 - 2 P(B < k), for B the number of n fair coins that show heads.
Source: H. A. David and H. N. Nagaraja, Order Statistics, 2003, section 7.1.
"""

from collections.abc import Iterator
from math import comb

from traceql.compare.shift import CONFIDENCE


def median_place(repeats: int) -> tuple[int, float]:
    """The greatest place, from 1, whose interval covers 95% or more; 1 if none does. Its coverage.

    Args:
        repeats: 1 or more; one repeat has a coverage of 0.
    """
    best = 1, _coverage(repeats, 1)
    for place in range(2, repeats // 2 + 1):
        if _coverage(repeats, place) < CONFIDENCE:
            break
        best = place, _coverage(repeats, place)
    return best


def _coverage(repeats: int, place: int) -> float:
    below = sum(comb(repeats, heads) for heads in range(place))
    return float(max(0.0, 1 - below / 2 ** (repeats - 1)))


def median_places(most: int) -> Iterator[dict[str, float]]:
    """The rows of table median_place, up to so many repeats."""
    for repeats in range(1, most + 1):
        place, coverage = median_place(repeats)
        yield {"repeats": repeats, "place": place, "coverage": coverage}
