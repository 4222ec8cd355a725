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
from enum import StrEnum
from math import copysign, inf, sqrt
from statistics import fmean, median
from typing import NamedTuple

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
    NONE = ""
    CHANGE = "change"  # the first value of a new level
    OUTLIER = "outlier"  # a single value; the next ones are as before
    UNCONFIRMED = "unconfirmed"  # the last value; the next one decides
    TOO_FEW = "too few before"  # to decide


class ScoredPoint(NamedTuple):
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
    """Scores and marks each value, looking back at `window` values at most."""
    starts, outliers = [0], set[int]()

    def before(place: int, segments: int) -> _Before | None:
        ends = [*starts[1:segments], place]
        places = [range(*ends) for ends in zip(starts[:segments], ends, strict=True)]
        return _before([[values[at] for at in one if at not in outliers] for one in places], window)

    def scored(place: int) -> ScoredPoint:
        number = max(at for at, start in enumerate(starts) if start <= place)
        end = starts[number + 1] if number + 1 < len(starts) else len(values)
        level = median([values[at] for at in range(starts[number], end) if at not in outliers])
        is_change = number > 0 and place == starts[number]
        known = before(place, number + (not is_change))
        if known is None:
            mark = Mark.NONE if number else Mark.TOO_FEW
            return ScoredPoint(number, level, None, None, None, None, 1, mark)
        z, since, mark = known.z(values[place : place + 1]), 1, Mark.NONE
        if is_change and (change := _change(values, place, known, threshold)):
            (z, since), mark = change, Mark.CHANGE
        elif place in outliers:
            mark = Mark.UNCONFIRMED if place == len(values) - 1 else Mark.OUTLIER
        margin = known.margin(threshold)
        return ScoredPoint(number, level, known.mean, margin, known.deviation, z, since, mark)

    place = 0
    while place < len(values):
        known = before(place, len(starts))
        if known and (found := _change(values, place, known, threshold)):
            starts.append(place)
            place += found[1]
        else:
            if known and known.is_beyond(values[place : place + 1], threshold):
                outliers.add(place)
            place += 1
    return [scored(at) for at in range(len(values))]


class _Before(NamedTuple):
    """Statistics of the values before a place."""

    mean: float
    counted: int
    deviation: float

    def z(self, values: Sequence[float]) -> float:
        """The distance of their mean, in standard errors."""
        distance = fmean(values) - self.mean
        error = self._error(len(values))
        return distance / error if error else (copysign(inf, distance) if distance else 0.0)

    def is_beyond(self, values: Sequence[float], threshold: float) -> bool:
        distance = abs(fmean(values) - self.mean)
        return distance > 0 and distance >= self.margin(threshold, len(values))

    def margin(self, threshold: float, count: int = 1) -> float:
        """The distance from which the mean of this many values is marked."""
        return max(threshold * self._error(count), NOISE * abs(self.mean))

    def _error(self, count: int) -> float:
        return self.deviation * sqrt(1 / count + 1 / self.counted)


def _before(segments: Sequence[list[float]], window: int) -> _Before | None:
    """Those of the values in segments between changes; None with too few values."""
    if len(segments[-1]) < _LEAST_OF_SEGMENT:
        return None
    residuals, mean = list[float](), 0.0
    for segment in segments:
        kept = _trimmed(segment[-window:])
        mean = fmean(kept)
        residuals += [value - mean for value in kept]
    residuals = residuals[-window:]
    freedom = len(residuals) - len(segments)
    if len(residuals) < LEAST_BEFORE or freedom < 1:
        return None
    deviation = sqrt(sum(one * one for one in residuals) / freedom)
    counted = min(len(segments[-1]), window)
    return _Before(mean, counted, max(deviation, LEAST_DEVIATION * abs(mean)))


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
