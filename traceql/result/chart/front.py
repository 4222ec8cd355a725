"""Fronts: points of two quantities of which more is better, with intervals of both.

A line joins the points that no other point beats in both, by their values alone; how sure that is
says the mark of each point. Each panel has axes of its own, but all are linear, or all logarithmic.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.encodings import axis_title, chart_of, coloured, hover, layered
from traceql.result.chart.plane import (
    Box,
    MeasuredAxis,
    Place,
    Point,
    are_far_apart,
    in_rows,
    measured_axis,
    named,
    places,
    row_of,
)
from traceql.result.chart.theme import INK, LABEL_SIZE, QUIET

_HEIGHT = 250  # pixels of a panel
_AXIS, _TITLE = 62, 22  # pixels of the vertical axis with its title, and of that
_DOT, _RADIUS = 52, 4.1  # square pixels, and pixels
_THICK = 1.0  # pixels from the middle of a line to what must not cover it
_MARKS = {  # shape and opacity by how sure the place of a point is; the first are labeled first
    "on the front": ("circle", 1.0),
    "undecided": ("diamond", 0.8),
    "dominated": ("triangle-down", 0.4),
}
_ACROSS, _UP = ["x", "x_low", "x_high"], ["y", "y_low", "y_high"]
_COLUMNS = (*_ACROSS, *_UP)

_Corners = list[tuple[float, float]]


def front(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    """The chart; its channels x_low, x_high, y_low and y_high are the ends of the intervals."""
    data = table.to_pandas().dropna(subset=[channels["x"], channels["y"]])
    points = pd.DataFrame({one: data[channels[one]].astype("float64") for one in _COLUMNS})
    for one in ("color", "label", "front", "panel"):
        points[one] = data[channels[one]].astype(str)
    names = list(dict.fromkeys(points["panel"]))
    row = row_of(len(names), width, _AXIS, one_axis=False)
    look = _look(points, width)
    parts = [points[points["panel"] == name] for name in names]
    across = _axes([part[_ACROSS] for part in parts], axis_title(channels["x"]), row.width)
    up = _axes([part[_UP] for part in parts], axis_title(channels["y"]), _HEIGHT)
    panels = [_panel(*one, look) for one in zip(parts, across, up, strict=True)]
    return in_rows(panels, row)


def _axes(parts: Sequence[pd.DataFrame], title: str, length: float) -> list[MeasuredAxis]:
    """An axis for each panel, all of one kind: logarithmic if the values of any are far apart."""
    by_powers = any(map(are_far_apart, parts)) and all(part.min().min() > 0 for part in parts)
    return [measured_axis(part, title, length, by_powers=by_powers) for part in parts]


def _look(points: pd.DataFrame, width: int) -> dict[str, Any]:
    """Color, shape and opacity, the same in all panels."""
    look = coloured(points, "color", width)
    legend = look["color"]["legend"]
    legend["symbolType"], legend["symbolOpacity"] = "circle", 1
    seen = [kind for kind in _MARKS if kind in set(points["front"])]
    plain = alt.Legend(title=None, symbolFillColor=QUIET, symbolStrokeWidth=0)
    shared: dict[str, Any] = {"field": "front", "type": "nominal", "legend": plain}
    shapes, opacities = ([_MARKS[kind][place] for kind in seen] for place in (0, 1))
    look["shape"] = alt.Shape(**shared, scale=alt.Scale(domain=seen, range=shapes))
    look["opacity"] = alt.Opacity(**shared, scale=alt.Scale(domain=seen, range=opacities))
    return look


def _panel(
    points: pd.DataFrame, across: MeasuredAxis, up: MeasuredAxis, look: dict[str, Any]
) -> alt.LayerChart:
    corners = _steps(points)
    labelled = pd.concat([points, _labels(points, corners, across, up)], axis=1)
    layers = [*named(points["panel"].iloc[0]), *_layers(labelled, corners, across, up, look)]
    return layered(layers, width=across.length, height=_HEIGHT)


def _layers(
    points: pd.DataFrame,
    corners: _Corners,
    across: MeasuredAxis,
    up: MeasuredAxis,
    look: dict[str, Any],
) -> Iterator[alt.Chart]:
    """The line of the front, the intervals, the points and their labels."""

    def x(field: str = "x") -> alt.X:
        return alt.X(**across.encoding(field))

    def y(field: str = "y") -> alt.Y:
        extent = _AXIS - _TITLE
        return alt.Y(**up.encoding(field, minExtent=extent, maxExtent=extent))

    steps = pd.DataFrame(corners, columns=["x", "y"]).assign(order=range(len(corners)))
    line = chart_of(steps).mark_line(color=QUIET, strokeWidth=1.5, opacity=0.6)
    yield line.encode(x=x(), y=y(), order=alt.Order(field="order", type="quantitative"))
    base = chart_of(points.drop(columns=["panel"]))
    bars = base.transform_filter("isValid(datum.x_low) && isValid(datum.y_low)")
    seen = {"color": look["color"], "opacity": look["opacity"]}
    bars = bars.mark_rule(strokeWidth=1.25).encode(**seen)
    yield bars.encode(x=x("x_low"), x2="x_high:Q", y=y())
    yield bars.encode(x=x(), y=y("y_low"), y2="y_high:Q")
    lines = base.transform_filter("datum.has_line").mark_rule(strokeWidth=0.6, color=QUIET)
    yield lines.encode(x=x(), y=y(), x2="label_x:Q", y2="label_y:Q")
    tooltip = {"color": "engine", "label": "load", "x": across.title, "y": up.title}
    marks = base.mark_point(filled=True, size=_DOT, strokeWidth=0)
    yield marks.encode(x=x(), y=y(), **look, **hover(tooltip | {"front": "front"}))
    labels = base.transform_filter("datum.shown").mark_text(
        align={"expr": "datum.align"}, color=INK, fontSize=LABEL_SIZE - 1
    )
    text = alt.Text(field="shown", type="nominal")
    yield labels.encode(x=x("label_x"), y=y("label_y"), text=text)


def _steps(points: pd.DataFrame) -> _Corners:
    """The corners of the line of the front, from the left: down at a point, then on to the next."""
    best, on_front = float("-inf"), _Corners()
    ordered = points.sort_values(["x", "y"], ascending=False)
    for x, y in zip(ordered["x"], ordered["y"], strict=True):
        if y > best:
            best = y
            on_front.append((x, y))
    corners = on_front[-1:]
    for here, following in pairwise(reversed(on_front)):
        corners += [(here[0], following[1]), following]
    return corners


def _labels(
    points: pd.DataFrame, corners: _Corners, across: MeasuredAxis, up: MeasuredAxis
) -> pd.DataFrame:
    """A place for each label, where it covers no point and no line."""

    def at(x: float, y: float) -> tuple[float, float]:
        return across.pixels(x), _HEIGHT - up.pixels(y)

    weights = {kind: -number for number, kind in enumerate(_MARKS)}
    columns = (points[one] for one in ("x", "y", "label", "front"))
    marks = [
        Point(*at(x, y), _RADIUS, label, weights[kind])
        for x, y, label, kind in zip(*columns, strict=True)
    ]
    lines = [_box(at(*here), at(*there)) for here, there in pairwise(corners)]
    for row in points.dropna(subset=list(_COLUMNS)).to_dict("records"):
        lines.append(_box(at(row["x_low"], row["y"]), at(row["x_high"], row["y"])))
        lines.append(_box(at(row["x"], row["y_low"]), at(row["x"], row["y_high"])))
    found = places(marks, Box(0, 0, across.length, _HEIGHT), lines=lines, texts=[])
    labels = [
        _label(mark, place, kind, across, up)
        for mark, place, kind in zip(marks, found, points["front"], strict=True)
    ]
    return pd.DataFrame(labels, index=points.index)


def _label(
    point: Point, place: Place | None, kind: str, across: MeasuredAxis, up: MeasuredAxis
) -> dict[str, Any]:
    has_line = place is not None and place.needs_line(point)
    # A line to a label is worth its ink only if the point may be chosen.
    if place is None or (has_line and kind == "dominated"):
        return {"shown": None, "label_x": None, "label_y": None, "align": "left", "has_line": False}
    return {
        "shown": point.name,
        "label_x": across.value(place.x),
        "label_y": up.value(_HEIGHT - place.y),
        "align": "left" if place.is_right else "right",
        "has_line": has_line,
    }


def _box(one: tuple[float, float], other: tuple[float, float]) -> Box:
    """What a horizontal or vertical line covers."""
    (left, right), (top, bottom) = (sorted(ends) for ends in zip(one, other, strict=True))
    return Box(left - _THICK, top - _THICK, right + _THICK, bottom + _THICK)
