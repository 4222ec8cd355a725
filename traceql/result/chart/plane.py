"""Axes of measured values in pixels, and places for names between points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, hypot, log10, pow
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

from traceql.result.chart.encodings import chart_of
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


LETTER = 5.7  # pixels: width of a letter
_LINE = 13  # pixels: height of a name
_GAP = 2  # pixels on each side of a name
_CLOSE = 14  # pixels between the middles of points whose names stand together
_BESIDE, _AWAY = 4, (12, 25, 45, 70)  # pixels from a circle to its name, without and with a line
_SHIFTS = 16  # half lines that names may stand above or below their points
_DETOUR, _LONG_DETOUR = 40, 400  # pixels worth going for a line that crosses no line; no name
_SAMPLES = 24  # of a line
_DOT = 1.5  # pixels: half the side of the box around a sample

Boxes = npt.NDArray[np.float64]  # one per row
_Group = list[int]  # numbers of points, from the top


class Box(NamedTuple):
    """A rectangle in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Point:
    """A circle and its name; the names of heavier points are placed first."""

    x: float
    y: float
    radius: float
    name: str
    weight: float

    @property
    def box(self) -> Box:
        r = self.radius
        return Box(self.x - r, self.y - r, self.x + r, self.y + r)

    def distance(self, other: "Point | Place") -> float:
        return hypot(self.x - other.x, self.y - other.y)


@dataclass(frozen=True)
class Place:
    """Where a name begins if it is right of its point, or ends if it is left; half its height."""

    x: float
    y: float
    is_right: bool

    def box(self, name: str) -> Box:
        width = len(name) * LETTER
        left = self.x if self.is_right else self.x - width
        return Box(left - _GAP, self.y - _LINE / 2, left + width + _GAP, self.y + _LINE / 2)

    def needs_line(self, point: Point) -> bool:
        return point.distance(self) > point.radius + 2 * _BESIDE


def places(
    points: Sequence[Point], area: Box, lines: Sequence[Box], texts: Sequence[Box]
) -> list[Place | None]:
    """The place of each point's name inside the area; None where there is no room for it.

    Args:
        texts: the same, which no line to a name should cross if there is another place.
    """
    found: dict[int, Place] = {}
    circles, drawn = boxes([point.box for point in points]), boxes(texts)
    for group in _groups(points):
        others = np.concatenate([np.delete(circles, group, axis=0), drawn])
        covered = np.concatenate([boxes(lines), circles, drawn])
        chosen = _best(points, group, area, boxes(lines), others, covered)
        for number, place in chosen.items():
            point, found[number] = points[number], place
            drawn = np.concatenate([drawn, boxes([place.box(point.name)]), _line(point, place)])
    return [found.get(number) for number in range(len(points))]


def _groups(points: Sequence[Point]) -> list[_Group]:
    """The points in groups of close ones, the group with the heaviest point first."""
    groups: list[_Group] = []
    for number, point in enumerate(points):
        near = [g for g in groups if any(point.distance(points[n]) < _CLOSE for n in g)]
        groups = [group for group in groups if group not in near]
        groups.append([number, *(other for group in near for other in group)])
    ordered = [sorted(group, key=lambda n: (points[n].y, points[n].x)) for group in groups]
    return sorted(ordered, key=lambda group: -max(points[n].weight for n in group))


def _best(
    points: Sequence[Point], group: _Group, area: Box, lines: Boxes, others: Boxes, covered: Boxes
) -> dict[int, Place]:
    """The nearest free places, unless the lines to those further away cross less.

    If there is no room for all names of the group, the lightest point goes without.
    """
    own = [points[number] for number in group]
    best, least = dict[int, Place](), float("inf")
    for distance, chosen in _around(own):
        if distance >= least:
            break
        names = boxes([place.box(point.name) for point, place in zip(own, chosen, strict=True)])
        begins, ends = (
            names[:, :2] >= (area.left, area.top),
            names[:, 2:] <= (area.right, area.bottom),
        )
        if not (begins.all() and ends.all()) or overlapping(names, covered):
            continue
        line = np.concatenate([_line(*each) for each in zip(own, chosen, strict=True)])
        cost = distance + _DETOUR * bool(overlapping(line, lines))
        cost += _LONG_DETOUR * bool(overlapping(line, others))
        if cost < least:
            best, least = dict(zip(group, chosen, strict=True)), cost
    if best or len(group) == 1:
        return best
    lightest = min(group, key=lambda number: points[number].weight)
    rest = [number for number in group if number != lightest]
    return _best(points, rest, area, lines, others, covered)


def _around(group: Sequence[Point]) -> Iterator[tuple[float, list[Place]]]:
    """Places beside the points of a group, with their distance, the nearest first."""
    left = min(point.box.left for point in group)
    right = max(point.box.right for point in group)
    middle = (group[0].y + group[-1].y) / 2
    choices = []
    for shift in range(-_SHIFTS, _SHIFTS + 1):
        top = middle + (shift - len(group) + 1) * _LINE / 2
        for gap in (_BESIDE, *_AWAY):
            for x, is_right in ((right + gap, True), (left - gap, False)):
                chosen = [Place(x, top + n * _LINE, is_right) for n in range(len(group))]
                choices.append((hypot(gap, shift * _LINE / 2), chosen))
    return iter(sorted(choices, key=lambda choice: choice[0]))


def _line(point: Point, place: Place) -> Boxes:
    """What the line from a circle to a name covers."""
    samples = _SAMPLES if place.needs_line(point) else 0
    share = np.linspace((point.radius + _BESIDE) / point.distance(place), 1, samples)
    x, y = point.x + (place.x - point.x) * share, point.y + (place.y - point.y) * share
    return np.column_stack([x - _DOT, y - _DOT, x + _DOT, y + _DOT])


def overlapping(some: Boxes, others: Boxes) -> int:
    """How many boxes of the ones have a part in common with any of the others."""
    left, top, right, bottom = some.T[:, :, None]
    other_left, other_top, other_right, other_bottom = others.T
    across = (left < other_right) & (other_left < right)
    return int((across & (top < other_bottom) & (other_top < bottom)).any(axis=1).sum())


def boxes(each: Sequence[Box]) -> Boxes:
    return np.array(each, dtype=np.float64).reshape(-1, 4)
