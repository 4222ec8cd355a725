"""Axes that are computed here, not by Vega-Lite, and the rows of panels that share them.

An axis of measured values is linear from zero, or logarithmic where the values are far apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, pow
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from traceql.result.chart.data import chart_of
from traceql.result.chart.theme import CONFIG, INK

NUMBER = "format(datum.value, ',~r')"  # 8,192 and 0.5
_WIDE = 8  # from this ratio of largest to smallest value on, an axis is logarithmic
_SPARE = 0.07  # of an axis at its upper end; of a logarithmic one at both ends
_LEAST_SPARE = 1.1  # factor, so that an axis of one value has a length
_LEAST, _FEW = 3, 9  # values on a logarithmic axis
_TICK = 50  # pixels between the values of a linear axis
_PANEL_LEAST = 210  # pixels of a panel, below which there is one less in a row
_MOST = 3  # in a row
_BETWEEN, _BELOW = 22, 20  # pixels between panels
_ABOVE = 10  # pixels from a panel to its name
_EDGE = 2 * CONFIG["padding"] + 12  # pixels; half of the last label on an axis stands out


@dataclass(frozen=True)
class MeasuredAxis:
    """An axis; `length` in pixels."""

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


@dataclass(frozen=True)
class Powers:
    """The ends of both axes, and their lengths in pixels; pixels count from the top left."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float

    def across(self, value: float) -> float:
        return self.width * log10(value / self.x[0]) / log10(self.x[1] / self.x[0])

    def down(self, value: float) -> float:
        return self.height * (1 - log10(value / self.y[0]) / log10(self.y[1] / self.y[0]))

    def value_across(self, pixels: float) -> float:
        first, last = self.x
        return first * pow(last / first, pixels / self.width)

    def value_down(self, pixels: float) -> float:
        lowest, highest = self.y
        return lowest * pow(highest / lowest, 1 - pixels / self.height)


def powers_of_ten(ends: tuple[float, float]) -> list[float]:
    """The powers of ten between the ends of an axis; also twice and five times, if they are few."""
    between = range(floor(log10(ends[0])), ceil(log10(ends[1])))
    for factors in ((1,), (1, 2, 5)):
        values = [factor * 10.0**power for power in between for factor in factors]
        inside = [value for value in values if ends[0] <= value <= ends[1]]
        if len(inside) > 1:
            break
    return inside


@dataclass(frozen=True)
class Row:
    """How panels stand in a row.

    Attributes:
        panels: how many.
        width: of the plot of a panel, pixels.
    """

    panels: int
    width: int


def row_of(count: int, width: int, axis: int, *, one_axis: bool) -> Row:
    """The row that suits a number of panels.

    Args:
        width: of the whole picture, pixels.
        axis: width of a vertical axis with its title, pixels.
        one_axis: whether panels share the axis of the first one in their row.
    """
    for most in range(min(count, _MOST), 1, -1):
        panels = ceil(count / ceil(count / most))  # four are two rows of two
        axes = axis if one_axis else panels * axis
        each = (width - _EDGE - axes - (panels - 1) * _BETWEEN) // panels
        if each >= _PANEL_LEAST:
            return Row(panels, each)
    return Row(1, width - _EDGE - axis)


def named(name: str) -> Iterator[alt.Chart]:
    """The name of a panel above it, at the same height in each; nothing if it has none."""
    if name:
        text = chart_of(pd.DataFrame({"name": [name]})).mark_text(
            align="left", baseline="bottom", color=INK, fontSize=12, fontWeight=600
        )
        yield text.encode(x=alt.value(0), y=alt.value(-_ABOVE), text="name:N")


def in_rows(charts: Sequence[alt.LayerChart], row: Row) -> alt.VConcatChart:
    """The panels in rows, with one legend."""
    rows = [
        alt.hconcat(*charts[first : first + row.panels], spacing=_BETWEEN)
        for first in range(0, len(charts), row.panels)
    ]
    drawn: alt.VConcatChart = alt.vconcat(*rows, spacing=_BELOW)
    return drawn
