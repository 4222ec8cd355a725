"""Fronts: points of two quantities of which more is better, with intervals of both.

A line joins the points that no other point beats in both, by their values alone; how sure that is says
the mark of each point. Each panel has its own axes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa

from traceql.chart.curves import NUMBER
from traceql.chart.data import axis_title, chart_of
from traceql.chart.encodings import coloured, hover
from traceql.chart.panels import in_rows, name_of, row_of
from traceql.chart.placing import Box, Point, places
from traceql.chart.powers import pixels_up, round_values
from traceql.chart.theme import CONFIG, INK, QUIET

_HEIGHT = 250  # pixels of a panel
_AXIS = 62  # pixels of the vertical axis with its title
_DOT, _RADIUS = 52, 4.1  # square pixels, and pixels
_SPARE = 0.08  # of a linear axis at its upper end; of a logarithmic one at both ends
_WIDE = 8  # from this ratio of largest to smallest value on, an axis is logarithmic
_TICK = 60  # pixels between values of an axis
_DOTS = 4  # pixels between the boxes that cover a line
_MARKS = {  # shape and opacity by how sure the place of a point is
    "on the front": ("circle", 1.0),
    "undecided": ("diamond", 0.8),
    "dominated": ("triangle-down", 0.4),
}


def front(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    """The chart; its channels x_low, x_high, y_low and y_high are the ends of the intervals."""
    data = table.to_pandas().dropna(subset=[channels["x"], channels["y"]])
    ends = ("x", "x_low", "x_high", "y", "y_low", "y_high")
    points = pd.DataFrame({one: data[channels[one]].astype("float64") for one in ends})
    for one in ("color", "label", "front", "panel"):
        points[one] = data[channels[one]].astype(str)
    names = list(dict.fromkeys(points["panel"]))
    row = row_of(len(names), width, _AXIS, one_axis=False)
    encoding = _marks(points, width)
    titles = axis_title(channels["x"]), axis_title(channels["y"])
    panels = [
        _panel(points[points["panel"] == name], titles, encoding, row.width) for name in names
    ]
    return in_rows(panels, row)


def _marks(points: pd.DataFrame, width: int) -> dict[str, Any]:
    """Color, shape and opacity, the same in all panels."""
    encoding = coloured(points, "color", width)
    encoding["color"]["legend"]["symbolType"] = "circle"
    encoding["color"]["legend"]["symbolOpacity"] = 1
    seen = [kind for kind in _MARKS if kind in set(points["front"])]
    shapes, opacities = zip(*(_MARKS[kind] for kind in seen), strict=True)
    legend = alt.Legend(title=None, symbolFillColor=QUIET, symbolStrokeWidth=0)
    encoding["shape"] = alt.Shape(
        field="front",
        type="nominal",
        scale=alt.Scale(domain=seen, range=list(shapes)),
        legend=legend,
    )
    encoding["opacity"] = alt.Opacity(
        field="front",
        type="nominal",
        scale=alt.Scale(domain=seen, range=list(opacities)),
        legend=legend,
    )
    return encoding


def _panel(
    points: pd.DataFrame, titles: tuple[str, str], encoding: dict[str, Any], width: int
) -> alt.LayerChart:
    across, up = _ends(points, "x"), _ends(points, "y")
    x = alt.X(**_axis("x", titles[0], across, width))
    y = alt.Y(**_axis("y", titles[1], up, _HEIGHT))
    y["axis"]["minExtent"] = y["axis"]["maxExtent"] = _AXIS - 22
    pixels = _pixels(points, across, up, width)
    steps = _steps(points)
    named = _labelled(points, pixels, steps, (across, up), width)
    base = chart_of(named.drop(columns=["panel"]))
    bars = base.transform_filter("isValid(datum.x_low) && isValid(datum.y_low)")
    colours = {"color": encoding["color"], "opacity": encoding["opacity"]}
    told = {"color": "engine", "label": "load", "x": titles[0], "y": titles[1], "front": "front"}
    name = points["panel"].iloc[0]
    text = {
        "x": alt.X(field="label_x", type="quantitative"),
        "text": alt.Text(field="shown", type="nominal"),
    }
    labels = base.transform_filter("datum.shown").mark_text(
        align={"expr": "datum.align"}, color=INK, fontSize=CONFIG["axis"]["labelFontSize"] - 1
    )
    layers = [
        *([name_of(name)] if name else []),
        chart_of(steps).mark_line(color=QUIET, strokeWidth=1.5, opacity=0.6).encode(
            x=_at(x, "x"), y=_at(y, "y"), order=alt.Order(field="order", type="quantitative")
        ),
        bars.mark_rule(strokeWidth=1.25).encode(x=_at(x, "x_low"), x2="x_high:Q", y=y, **colours),
        bars.mark_rule(strokeWidth=1.25).encode(x=x, y=_at(y, "y_low"), y2="y_high:Q", **colours),
        base.transform_filter("datum.has_line").mark_rule(strokeWidth=0.6, color=QUIET).encode(
            x=x, y=y, x2="label_x:Q", y2="label_y:Q"
        ),
        base.mark_point(filled=True, size=_DOT, strokeWidth=0).encode(x=x, y=y, **encoding, **hover(told)),
        labels.encode(y=_at(y, "label_y"), **text | {"x": _at(x, "label_x")}),
    ]  # fmt: skip
    drawn: alt.LayerChart = alt.LayerChart(layer=layers).properties(width=width, height=_HEIGHT)
    return drawn


def _ends(points: pd.DataFrame, axis: str) -> tuple[float, float, bool]:
    """The ends of an axis, and whether it is logarithmic."""
    values = points[[axis, f"{axis}_low", f"{axis}_high"]].stack()
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > _WIDE:
        spare = (high / low) ** _SPARE
        return low / spare, high * spare, True
    return 0.0, high * (1 + _SPARE) or 1.0, False


def _axis(field: str, title: str, ends: tuple[float, float, bool], length: int) -> dict[str, Any]:
    low, high, by_powers = ends
    values = (
        {"values": round_values((low, high))}
        if by_powers
        else {"tickCount": max(3, length // _TICK)}
    )
    scale = {"type": "log"} if by_powers else {}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": alt.Scale(domain=[low, high], nice=False, **scale),
        "axis": alt.Axis(**values, labelExpr=f"format(datum.value, '{NUMBER}')", labelFlush=False),
    }


def _at(axis: Any, field: str) -> Any:
    """The axis for another column."""
    return type(axis)(
        field=field,
        type="quantitative",
        title=axis["title"],
        scale=axis["scale"],
        axis=axis["axis"],
    )


def _steps(points: pd.DataFrame) -> pd.DataFrame:
    """The corners of the line of the front, from the left: down at a point, then on to the next."""
    best, on_front = -np.inf, []
    ordered = points.sort_values(["x", "y"], ascending=False)
    for x, y in zip(ordered["x"], ordered["y"], strict=True):
        if y > best:
            best = y
            on_front.append((x, y))
    corners = [on_front[-1]]
    for here, following in pairwise(reversed(on_front)):
        corners += [(here[0], following[1]), following]
    rows = [{"x": x, "y": y, "order": order} for order, (x, y) in enumerate(corners)]
    return pd.DataFrame(rows)


def _pixels(
    points: pd.DataFrame,
    across: tuple[float, float, bool],
    up: tuple[float, float, bool],
    width: int,
) -> pd.DataFrame:
    """The columns of points in pixels from the top left."""

    def along(column: str, ends: tuple[float, float, bool], length: float) -> pd.Series:
        low, high, by_powers = ends
        found: pd.Series = points[column].map(
            lambda value: pixels_up(value, (low, high), length, by_powers=by_powers)
        )
        return found

    found = {one: along(one, across, width) for one in points if str(one).startswith("x")}
    found |= {one: _HEIGHT - along(one, up, _HEIGHT) for one in points if str(one).startswith("y")}
    return pd.DataFrame(found)


def _labelled(
    points: pd.DataFrame,
    pixels: pd.DataFrame,
    steps: pd.DataFrame,
    axes: tuple[tuple[float, float, bool], tuple[float, float, bool]],
    width: int,
) -> pd.DataFrame:
    """The points with a place for each label; those on the front are placed first."""
    weights = points["front"].map({kind: -number for number, kind in enumerate(_MARKS)})
    rows = zip(pixels["x"], pixels["y"], points["label"], weights, strict=True)
    marks = [Point(x, y, _RADIUS, label, weight) for x, y, label, weight in rows]
    drawn = _pixels(steps, *axes, width)
    lines = list(_line_boxes(list(zip(drawn["x"], drawn["y"], strict=True))))
    for x_low, x_high, x, y_low, y_high, y in zip(
        *(pixels[one] for one in ("x_low", "x_high", "x", "y_low", "y_high", "y")), strict=True
    ):
        if not np.isnan(x_low) and not np.isnan(y_low):
            lines += [Box(x_low, y - 1, x_high, y + 1), Box(x - 1, y_high, x + 1, y_low)]
    found = places(marks, Box(0, 0, width, _HEIGHT), lines=lines, texts=[])
    # A label that is away from its point is worth a line if the point may be chosen.
    found = [
        None if place and kind == "dominated" and place.needs_line(mark) else place
        for mark, place, kind in zip(marks, found, points["front"], strict=True)
    ]
    labels = [
        {
            "shown": mark.name if place else None,
            "label_x": _value(place.x, axes[0], width) if place else None,
            "label_y": _value(_HEIGHT - place.y, axes[1], _HEIGHT) if place else None,
            "align": "left" if place is None or place.is_right else "right",
            "has_line": place is not None and place.needs_line(mark),
        }
        for mark, place in zip(marks, found, strict=True)
    ]
    return pd.concat([points, pd.DataFrame(labels, index=points.index)], axis=1)


def _line_boxes(corners: Sequence[tuple[float, float]]) -> Iterator[Box]:
    for (x, y), (to_x, to_y) in pairwise(corners):
        yield Box(min(x, to_x) - 1, min(y, to_y) - 1, max(x, to_x) + 1, max(y, to_y) + 1)


def _value(pixels: float, ends: tuple[float, float, bool], length: float) -> float:
    """The value at so many pixels from the lower end of an axis."""
    low, high, by_powers = ends
    share = pixels / length
    return float(low * (high / low) ** share) if by_powers else low + (high - low) * share
