"""Detects changes in a series of runs by lookback z-scores, as Conbench does.

A value is compared with the mean of a window of values before it, in standard deviations of the
values from their own windows. A window restarts at each change, the deviations continue across
changes, outliers are excluded from both, and the threshold is 5. Unlike in Conbench, marks need

- at least eight values before, because fewer do not determine a deviation;
- at least two values for a change: the mean of up to six values since must be beyond the threshold,
  and each of them nearer to that mean than to the one before. So persistent changes below five
  deviations are found, and a single value is an outlier;
- a change of at least 1%, like all verdicts of traceql.

The standard errors of both means count. The deviation is at least 0.1% of the mean: equal values
would make every difference infinite.

Source: github.com/conbench/conbench, docs/pages/lookback_zscore.md and
conbench/entities/history.py (_add_rolling_stats_columns_to_df, _calculate_z_score,
_detect_shifts_with_trimmed_estimators). Conbench marks steps by the differences of neighbors, which
finds only steps of five deviations of a difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import copysign, inf, sqrt
from statistics import fmean, median

from traceql.runs.compare.verdict import NOISE

THRESHOLD = 5.0
WINDOW = 100  # Conbench's DISTRIBUTION_COMMITS
LEAST_BEFORE = 8
_LEAST_SINCE, _MOST_SINCE = 2, 6  # values that a change is found by
LEAST_POINTS = LEAST_BEFORE + _LEAST_SINCE  # of a series, before anything is marked
_LEAST_OF_SEGMENT = 2  # values after a change, before the next one can be found
LEAST_DEVIATION = 0.001  # relative to the mean
_FROM_MAD = 1.4826  # of a normal distribution


class Mark(StrEnum):
    """The mark of a value in its series."""

    NONE = ""
    CHANGE = "change"  # the first value of a new level
    OUTLIER = "outlier"  # a single value; the next ones are as before
    UNCONFIRMED = "unconfirmed"  # the last value; the next one decides
    TOO_FEW = "too few before"  # to decide


@dataclass(frozen=True)
class ScoredPoint:
    """A value with its score in the series.

    Attributes:
        segment: number of changes up to it.
        level: median of the segment, without outliers.
        expected: mean of the window before it; None without one.
        margin: distance from `expected` at which a single value is marked.
        deviation: standard deviation of a value; None where there are too few.
        z: deviations from `expected`; at a change, of the mean of the values that confirm it.
        since: the number of these values; otherwise 1.
    """

    segment: int
    level: float
    expected: float | None
    margin: float | None
    deviation: float | None
    z: float | None
    since: int
    mark: Mark


def score_points(
    values: Sequence[float], *, threshold: float = THRESHOLD, window: int = WINDOW
) -> list[ScoredPoint]:
    """Scores and marks each value.

    Args:
        values: one for each point, in order.
        threshold: z-score from which a value is marked.
        window: most values to look back at.
    """
    starts, outliers = [0], set[int]()
    place = 0
    while place < len(values):
        before = _Before.of(values, place, starts, outliers, window)
        if before is None:
            place += 1
        elif found := _change(values, place, before, threshold):
            starts.append(place)
            place += found[1]
        else:
            if before.is_beyond(values[place : place + 1], threshold):
                outliers.add(place)
            place += 1
    places = range(len(values))
    return [_score(values, at, starts, outliers, threshold, window) for at in places]


@dataclass(frozen=True)
class _Before:
    """Statistics of the values before a place."""

    mean: float
    count: int
    deviation: float

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        place: int,
        starts: Sequence[int],
        outliers: set[int],
        window: int,
    ) -> "_Before | None":
        """None with too few values."""
        segments = [
            [at for at in range(start, min(end, place)) if at not in outliers]
            for start, end in zip(starts, [*starts[1:], len(values)], strict=True)
            if start < place
        ]
        if not segments or len(segments[-1]) < _LEAST_OF_SEGMENT:
            return None
        residuals: list[float] = []
        means = []
        for segment in segments:
            kept = _trimmed([values[at] for at in segment[-window:]])
            means.append(fmean(kept))
            residuals += [value - means[-1] for value in kept]
        residuals = residuals[-window:]
        freedom = len(residuals) - len(segments)
        if len(residuals) < LEAST_BEFORE or freedom < 1:
            return None
        deviation = sqrt(sum(one * one for one in residuals) / freedom)
        least = LEAST_DEVIATION * abs(means[-1])
        return cls(means[-1], min(len(segments[-1]), window), max(deviation, least))

    def z(self, values: Sequence[float]) -> float:
        """The distance of their mean, in standard errors."""
        distance = fmean(values) - self.mean
        error = self._error(len(values))
        return distance / error if error else (copysign(inf, distance) if distance else 0.0)

    def is_beyond(self, values: Sequence[float], threshold: float) -> bool:
        distance = abs(fmean(values) - self.mean)
        return distance > 0 and distance >= self.margin(threshold, len(values))

    def margin(self, threshold: float, count: int = 1) -> float:
        """The distance from which the mean of so many values is marked."""
        return max(threshold * self._error(count), NOISE * abs(self.mean))

    def _error(self, count: int) -> float:
        return self.deviation * sqrt(1 / count + 1 / self.count)


def _change(
    values: Sequence[float], place: int, before: _Before, threshold: float
) -> tuple[float, int] | None:
    """The z-score and number of values of a change at a place, confirmed by the fewest values."""
    for since in range(_LEAST_SINCE, _MOST_SINCE + 1):
        after = values[place : place + since]
        if len(after) < since:
            return None
        distance = fmean(after) - before.mean
        stays = distance and all((value - before.mean) / distance > 0.5 for value in after)
        if stays and before.is_beyond(after, threshold):
            return before.z(after), since
    return None


def _trimmed(values: Sequence[float]) -> list[float]:
    """Without values five deviations off: early outliers have no mark."""
    middle = median(values)
    spread = _FROM_MAD * median(abs(value - middle) for value in values)
    most = THRESHOLD * max(spread, NOISE * abs(middle))
    return [value for value in values if abs(value - middle) <= most]


def _score(
    values: Sequence[float],
    place: int,
    starts: Sequence[int],
    outliers: set[int],
    threshold: float,
    window: int,
) -> ScoredPoint:
    number = max(at for at, start in enumerate(starts) if start <= place)
    end = starts[number + 1] if number + 1 < len(starts) else len(values)
    level = median([values[at] for at in range(starts[number], end) if at not in outliers])
    is_change = number > 0 and place == starts[number]
    before = _Before.of(values, place, starts[: number + (not is_change)], outliers, window)
    if before is None:
        mark = Mark.NONE if number else Mark.TOO_FEW
        return ScoredPoint(number, level, None, None, None, None, 1, mark)
    z, since, mark = before.z(values[place : place + 1]), 1, Mark.NONE
    if is_change and (change := _change(values, place, before, threshold)):
        (z, since), mark = change, Mark.CHANGE
    elif place in outliers:
        mark = Mark.UNCONFIRMED if place == len(values) - 1 else Mark.OUTLIER
    margin = before.margin(threshold)
    return ScoredPoint(number, level, before.mean, margin, before.deviation, z, since, mark)
