"""Axes of measured values: linear from zero, or logarithmic where the values are far apart."""

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

NUMBER = "format(datum.value, ',~r')"  # 8,192 and 0.5
_WIDE = 8  # from this ratio of largest to smallest value on, an axis is logarithmic
_SPARE = 0.07  # of an axis at its upper end; of a logarithmic one at both ends
_LEAST_SPARE = 1.1  # factor, so that an axis of one value has a length
_LEAST, _FEW = 3, 9  # values on a logarithmic axis
_TICK = 50  # pixels between the values of a linear axis


@dataclass(frozen=True)
class MeasuredAxis:
    """An axis of so many pixels."""

    title: str
    low: float
    high: float
    by_powers: bool
    length: float

    def pixels(self, value: float) -> float:
        """How far a value is from the lower end."""
        if self.by_powers:
            return self.length * log10(value / self.low) / log10(self.high / self.low)
        return self.length * (value - self.low) / (self.high - self.low)

    def value(self, pixels: float) -> float:
        """The value that is so far from the lower end."""
        share = pixels / self.length
        if self.by_powers:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share

    def encoding(self, field: str, **look: Any) -> dict[str, Any]:
        """The arguments of a channel of Altair that has this axis."""
        scale: dict[str, Any] = {"type": "log"} if self.by_powers else {}
        ticks: dict[str, Any] = {"tickCount": max(3, int(self.length // _TICK))}
        if self.by_powers:
            ticks = {"values": _round_values(self.low, self.high)}
        return {
            "field": field,
            "type": "quantitative",
            "title": self.title,
            "scale": alt.Scale(domain=[self.low, self.high], nice=False, **scale),
            "axis": alt.Axis(**ticks, labelExpr=NUMBER, labelFlush=False, **look),
        }


def measured_axis(
    values: pd.DataFrame,
    title: str,
    length: float,
    *,
    least_high: float = 0.0,
    by_powers: bool | None = None,
) -> MeasuredAxis:
    """The axis for all values of some columns.

    Args:
        least_high: what it shows in any case.
        by_powers: whether it is logarithmic, which needs positive values; if None, they decide.
    """
    low, high = _ends(values, least_high)
    if by_powers is None:
        by_powers = are_far_apart(values, least_high=least_high)
    if by_powers:
        spare = max((high / low) ** _SPARE, _LEAST_SPARE)
        return MeasuredAxis(title, low / spare, high * spare, True, length)
    return MeasuredAxis(title, min(0.0, low), high * (1 + _SPARE) or 1.0, False, length)


def are_far_apart(values: pd.DataFrame, *, least_high: float = 0.0) -> bool:
    """Whether the values of some columns need a logarithmic axis."""
    low, high = _ends(values, least_high)
    return low > 0 and high / low > _WIDE


def _ends(values: pd.DataFrame, least_high: float) -> tuple[float, float]:
    numbers = values.to_numpy(dtype="float64")
    return float(np.nanmin(numbers)), max(float(np.nanmax(numbers)), least_high)


def _round_values(low: float, high: float) -> list[float]:
    """As many of 1, 2 and 5 times powers of ten as an axis has room for."""
    between = range(floor(log10(low)), ceil(log10(high)))
    inside = list[float]()
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = [factor * 10.0**power for power in between for factor in factors]
        inside = [value for value in values if low <= value <= high]
        if len(inside) <= _FEW:
            break
    return inside if len(inside) >= _LEAST else _even_values(low, high)


def _even_values(low: float, high: float) -> list[float]:
    """Some values at even distances, for an axis that is much shorter than a power of ten."""
    power = 10.0 ** floor(log10((high - low) / _LEAST))
    step = next((s for f in (5, 2) if (s := f * power) * _LEAST <= high - low), power)
    return [step * number for number in range(ceil(low / step), floor(high / step) + 1)]
