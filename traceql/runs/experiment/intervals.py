"""At which repeats the interval of their median begins and ends: exact, for any distribution.

The probability that the k-th lowest and the k-th highest of n values have the median of the
distribution between them is 1 - 2 P(B < k), for B the number of n fair coins that show heads.
Source: H. A. David and H. N. Nagaraja, Order Statistics, 2003, section 7.1.
"""

from collections.abc import Iterable, Iterator

from traceql.runs.compare.shift import CONFIDENCE


def median_place(repeats: int) -> tuple[int, float]:
    """The greatest place, from 1, whose interval covers 95% or more; 1 if none does. Its coverage.

    Args:
        repeats: 1 or more; one repeat has a coverage of 0.
    """
    ways = below = 1  # orders of coins with as many heads as place - 1, and with as many or fewer
    best = 1, _coverage(repeats, below)
    for place in range(2, repeats // 2 + 1):
        ways = ways * (repeats - place + 2) // (place - 1)
        below += ways
        coverage = _coverage(repeats, below)
        if coverage < CONFIDENCE:
            break
        best = place, coverage
    return best


def _coverage(repeats: int, below: int) -> float:
    return float(max(0.0, 1 - below / 2 ** (repeats - 1)))


def median_places(numbers: Iterable[int]) -> Iterator[dict[str, float]]:
    """The rows of table median_place, for some numbers of repeats."""
    for repeats in sorted(numbers):
        place, coverage = median_place(repeats)
        yield {"repeats": repeats, "place": place, "coverage": coverage}
