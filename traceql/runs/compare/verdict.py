"""Says what the runs of two sides allow to say about one number."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log1p
from statistics import median_low

from traceql.runs.compare.shift import LEAST_RUNS, Shift, runs_for, shift

NOISE = 0.01  # a smaller change than this is none; as in criterion.rs (noise_threshold)


class Verdict(StrEnum):
    """What can be said about one number."""

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
        base: median of the runs of base; of two in the middle the lower one, so that a run has it.
        new: the same of new.
        shift: how far they differ, with an interval; of values that may be 0, in parts of `whole`.
        verdict: what that allows to say.
        reason: why it is not more.
        runs: how many runs on each side would do; None if that is unknown, or if there are enough.
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
        base: one value for each run; at least one.
        new: the same of the other side.
        whole: what a difference is a part of if a value is 0, so that no ratio exists.
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
        return Verdict.NO_VERDICT, _too_few(len(base), len(new)), None
    # As far below as above: the same verdict, turned round, if the sides are exchanged.
    least = 1 / (1 + threshold) - 1 if found.is_ratio else -threshold
    if least <= found.low and found.high <= threshold:
        return Verdict.NO_CHANGE, "", None
    if not least <= found.estimate <= threshold and (found.low > 0 or found.high < 0):
        return (Verdict.SLOWER if found.estimate > 0 else Verdict.FASTER), "", None
    runs = _needed(found, base, new, whole, threshold)
    told = (
        f"{runs} runs on each side would do"
        if runs
        else "more than 50 runs on each side are needed"
    )
    return Verdict.INCONCLUSIVE, told, runs


def _needed(
    found: Shift, base: Sequence[float], new: Sequence[float], whole: float, threshold: float
) -> int | None:
    """The number of runs with which the interval would leave out 0, or one end of the threshold."""
    if found.is_ratio:  # measured as far below as above
        threshold, distance = log1p(threshold), abs(log1p(found.estimate))
    else:
        distance = abs(found.estimate)
    margin = distance if distance > threshold else threshold - distance
    runs = runs_for(base, new, margin if found.is_ratio else margin * whole)
    return runs and max(runs, min(len(base), len(new)) + 1)


def _too_few(base: int, new: int) -> str:
    runs = "one run" if base == new == 1 else f"{base} and {new} runs"
    return f"{runs} a side; a verdict needs {LEAST_RUNS} on each, better 5"
