"""The difference of two groups of runs with its interval, and the verdict on one number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import accumulate
from math import ceil, comb, exp, log, log1p, sqrt
from statistics import median, median_low, pstdev

CONFIDENCE = 0.95
LEAST_RUNS = 4  # of each group: with three, no interval reaches 95%
_MAX_RUNS = 50  # to recommend; more cost more than the answer is worth
_NORMAL_QUANTILE = 1.96  # of CONFIDENCE, two-sided
# The interval of ranks is longer than that of a normal distribution with a known deviation, and
# with few runs its confidence takes few values, which makes it longer still.
_LONGER_THAN_NORMAL = 1.1


@dataclass(frozen=True)
class Shift:
    """The shift from the first to the second group.

    Attributes:
        estimate: the Hodges-Lehmann estimate: a ratio minus 1, or a difference.
        low, high: its interval; None with fewer than LEAST_RUNS runs in a group.
        p: of the two-sided exact Mann-Whitney test; None without an interval.
        is_ratio: whether it is a ratio minus 1.
    """

    estimate: float
    low: float | None
    high: float | None
    p: float | None
    is_ratio: bool


def shift(base: Sequence[float], new: Sequence[float]) -> Shift:
    """The shift from base to new, one value for each run: relative, unless a run has 0 or less."""
    is_ratio = min(*base, *new) > 0
    if not is_ratio:
        return _shift(base, new, is_ratio=False)
    found = _shift([log(value) for value in base], [log(value) for value in new], is_ratio=True)
    low, high = (None if end is None else exp(end) - 1 for end in (found.low, found.high))
    return Shift(exp(found.estimate) - 1, low, high, found.p, is_ratio=True)


def _shift(base: Sequence[float], new: Sequence[float], *, is_ratio: bool) -> Shift:
    differences = sorted(after - before for before in base for after in new)
    place = interval_place(len(base), len(new))
    if place is None:
        return Shift(median(differences), None, None, None, is_ratio)
    low, high = differences[place - 1], differences[-place]
    return Shift(median(differences), low, high, p_value(base, new), is_ratio)


def interval_place(base: int, new: int) -> int | None:
    """The place, from 1, of the pairwise difference at which the interval begins.

    It ends as many places before the last one. None if no interval reaches CONFIDENCE.
    """
    outside = 1 - CONFIDENCE
    place = 0
    for below, at_most in enumerate(_cumulated(base, new), start=1):
        if 2 * at_most > outside:
            break
        place = below
    return place if place and min(base, new) >= LEAST_RUNS else None


def p_value(base: Sequence[float], new: Sequence[float]) -> float:
    """Of the two-sided exact Mann-Whitney test; ties count one half for each group."""
    above = sum((after > before) + (after == before) / 2 for before in base for after in new)
    pairs = len(base) * len(new)
    less_extreme = min(above, pairs - above)
    # Rounding up a half is conservative.
    return min(1.0, 2 * _cumulated(len(base), len(new))[ceil(less_extreme)])


@cache
def _cumulated(base: int, new: int) -> tuple[float, ...]:
    """The null distribution of the number of pairs with the new value above, cumulated."""
    # Orders of the runs by the pairs with the new one above: each new run is above 0 to `base`.
    counts = [1] + [0] * (base * new)
    for step in range(1, new + 1):
        # Multiplication by (1 - q^(base+step)) / (1 - q^step), a Gaussian binomial coefficient.
        for place in range(len(counts) - 1, base + step - 1, -1):
            counts[place] -= counts[place - base - step]
        for place in range(step, len(counts)):
            counts[place] += counts[place - step]
    orders = comb(base + new, new)
    return tuple(count / orders for count in accumulate(counts))


def holm(p_values: Mapping[str, float | None]) -> dict[str, bool]:
    """Which of several simultaneous tests, by name, are significant (Holm 1979)."""
    tests = sorted((p, name) for name, p in p_values.items() if p is not None)
    held = dict.fromkeys(p_values, False)
    for place, (p, name) in enumerate(tests):
        if p > (1 - CONFIDENCE) / (len(tests) - place):
            break
        held[name] = True
    return held


def runs_for(base: Sequence[float], new: Sequence[float], margin: float) -> int | None:
    """The number of runs of each group whose interval is at most two margins long.

    It assumes the spread of these runs. None if it is more than 50, or if a group has one run.
    The margin is relative where `shift` is.
    """
    if min(len(base), len(new)) < 2 or margin <= 0:
        return None
    if min(*base, *new) > 0:
        base, new = [log(value) for value in base], [log(value) for value in new]
    freedom = len(base) + len(new) - 2
    squares = len(base) * pstdev(base) ** 2 + len(new) * pstdev(new) ** 2
    half = _NORMAL_QUANTILE * _LONGER_THAN_NORMAL * sqrt(2 * squares / freedom)
    runs = max(LEAST_RUNS, ceil((half / margin) ** 2))
    return runs if runs <= _MAX_RUNS else None


NOISE = 0.01  # a smaller change than this is none; as in criterion.rs (noise_threshold)


class Verdict(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    NO_CHANGE = "no change"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    NO_VERDICT = "no verdict"
    NEW = "new"
    GONE = "gone"


_OPPOSITE = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


@dataclass(frozen=True)
class Judged:
    """The difference of one number between the two sides.

    Attributes:
        base, new: medians of the runs; of two in the middle the lower one.
        shift: the difference with its interval; of values that may be 0, in parts of `whole`.
        reason: why the verdict is not more definite.
        runs: runs on each side that would decide; None if unknown, or if there are enough.
    """

    base: float
    new: float
    shift: Shift
    verdict: Verdict
    reason: str
    runs: int | None = None


def judged(
    base: Sequence[float],
    new: Sequence[float],
    *,
    whole: float,
    threshold: float = NOISE,
    more_is_better: bool = False,
    forbidden: str = "",
) -> Judged:
    """The difference between the values of the runs.

    Args:
        base, new: one value for each run; at least one.
        whole: the unit of differences if a value is 0, so that no ratio exists.
        threshold: the smallest change that counts, relative.
        more_is_better: whether a higher value is faster.
        forbidden: why there can be no verdict.
    """
    found = shift(base, new)
    if not found.is_ratio and whole > 0:
        low, high = (None if end is None else end / whole for end in (found.low, found.high))
        found = Shift(found.estimate / whole, low, high, found.p, is_ratio=False)
    verdict, reason, runs = _verdict(found, base, new, whole, threshold)
    if more_is_better:
        verdict = _OPPOSITE.get(verdict, verdict)
    if forbidden:
        verdict, reason, runs = Verdict.NOT_COMPARABLE, forbidden, None
    return Judged(median_low(base), median_low(new), found, verdict, reason, runs)


def _verdict(
    found: Shift, base: Sequence[float], new: Sequence[float], whole: float, threshold: float
) -> tuple[Verdict, str, int | None]:
    if found.low is None or found.high is None:
        counts = f"{len(base)} and {len(new)} runs"
        runs_text = "one run" if len(base) == len(new) == 1 else counts
        reason = f"{runs_text} a side; a verdict needs {LEAST_RUNS} on each, better 5"
        return Verdict.NO_VERDICT, reason, None
    # Symmetric: exchanging the sides inverts the verdict.
    least = 1 / (1 + threshold) - 1 if found.is_ratio else -threshold
    if least <= found.low and found.high <= threshold:
        return Verdict.NO_CHANGE, "", None
    if not least <= found.estimate <= threshold and (found.low > 0 or found.high < 0):
        return (Verdict.SLOWER if found.estimate > 0 else Verdict.FASTER), "", None
    # The number of runs with which the interval would exclude 0, or one end of the threshold.
    if found.is_ratio:
        threshold, distance = log1p(threshold), abs(log1p(found.estimate))
    else:
        distance = abs(found.estimate)
    margin = distance if distance > threshold else threshold - distance
    runs = runs_for(base, new, margin if found.is_ratio else margin * whole)
    if runs is None:
        return Verdict.INCONCLUSIVE, "more than 50 runs on each side are needed", None
    runs = max(runs, min(len(base), len(new)) + 1)
    return Verdict.INCONCLUSIVE, f"{runs} runs on each side would decide", runs
