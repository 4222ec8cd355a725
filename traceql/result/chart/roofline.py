"""Rooflines: the work that was done per second, below what the device can do at most.

The roofs of a row are its own ceilings: operations per second, and bytes per second times the
operations per byte. Those of a data sheet are solid lines, and measured ones are dashed.
"""

from collections.abc import Sequence
from math import floor, log10, pi, sqrt
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.errors import QueryInvalid
from traceql.result.chart.data import axis_title, chart_of, in_display_units
from traceql.result.chart.encodings import across, coloured, hover, upward
from traceql.result.chart.placing import LETTER, Box, Place, Point, places
from traceql.result.chart.plane import area
from traceql.result.chart.powers import Powers, powers_of_ten
from traceql.result.chart.roofs import Roof, line_boxes, roof_layers, roof_texts, roofs_of
from traceql.result.chart.theme import CONFIG, INK, PAPER

_HEIGHT = 340
_BESIDE_PLOT = 72  # pixels of the vertical axis with its title, and of the padding
_AXIS = 34  # pixels of the labels of the vertical axis
_AREAS = (20, 320)  # of the smallest and the largest circle, pixels
_MARGIN = 1.7  # factor between the outermost points and the ends of an axis
_AROUND_RIDGE = 4  # the same between the ridge of a roof and the ends
_BESIDE_NAME, _MOST_FOR_NAMES = 30, 0.4  # pixels beside a name at right; share of the width
_INTENSITY = "arithmetic intensity (FLOP per byte)"


def roofline(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    x, y, size = channels["x"], channels["y"], channels["size"]
    data, (y_title, size_title) = in_display_units(table, [y], [size])
    data = data[(data[x] > 0) & (data[y] > 0)].sort_values(size, ascending=False)
    if data.empty:
        raise QueryInvalid("there is nothing to draw: no row has both operations and bytes")
    roofs = roofs_of(data, channels)
    plane = _plane(data, channels, roofs, width)
    points = _points(data, channels, plane)
    texts = roof_texts(roofs, plane, [point.box for point in points])
    found = places(
        points,
        Box(0, 0, plane.width, plane.height),
        lines=list(line_boxes(roofs, plane)),
        texts=[box for text in texts for box in text.boxes],
    )
    named = pd.concat([data, _names(points, found, plane, data.index)], axis=1)
    titles = {x: _INTENSITY, y: y_title, size: size_title}
    layers = [*roof_layers(roofs, texts, plane), *_marks(data, channels, titles, plane, width)]
    drawn: alt.LayerChart = alt.LayerChart(data=chart_of(named).data, layer=layers).properties(
        height=_HEIGHT
    )
    return drawn


def _plane(
    data: pd.DataFrame, channels: dict[str, str], roofs: Sequence[Roof], width: int
) -> Powers:
    """The axes with all points, with the ridges of the roofs, and with room for names at right."""
    x, y = data[channels["x"]], data[channels["y"]]
    ridges, flat = [roof.ridge for roof in roofs], [roof.tflops for roof in roofs]
    first = min([x.min() / _MARGIN, *(ridge / _AROUND_RIDGE for ridge in ridges)])
    last = max([x.max() * _MARGIN, *(ridge * _AROUND_RIDGE for ridge in ridges)])
    plot = width - _BESIDE_PLOT
    longest = data[channels["label"]].astype(str).str.len().max() * LETTER + _BESIDE_NAME
    share = min(longest / plot, _MOST_FOR_NAMES)
    room = (x.max() / first) ** (share / (1 - share))
    return Powers(
        x=(first, max(last, x.max() * room)),
        y=(min([y.min(), *flat]) / _MARGIN, max([y.max(), *flat]) * _MARGIN),
        width=plot,
        height=_HEIGHT,
    )


def _points(data: pd.DataFrame, channels: dict[str, str], plane: Powers) -> list[Point]:
    columns = (data[channels[name]] for name in ("x", "y", "size", "label"))
    smallest, largest = _AREAS
    most = data[channels["size"]].max() or 1
    return [
        Point(
            x=plane.across(x),
            y=plane.down(y),
            radius=sqrt((smallest + (largest - smallest) * size / most) / pi),
            name=str(label),
            weight=size,
        )
        for x, y, size, label in zip(*columns, strict=True)
    ]


def _names(
    points: Sequence[Point], found: Sequence[Place | None], plane: Powers, index: pd.Index
) -> pd.DataFrame:
    """Where the name of each point is, and where the line to it begins."""
    rows: list[dict[str, Any]] = []
    for point, place in zip(points, found, strict=True):
        row: dict[str, Any] = {"name": point.name if place else ""}
        if place:
            row |= {"name_x": plane.value_across(place.x), "name_y": plane.value_down(place.y)}
            row |= {"align": "left" if place.is_right else "right"}
            row |= {"has_line": place.needs_line(point)}
        rows.append(row)
    return pd.DataFrame(rows, index=index)


def _marks(
    data: pd.DataFrame, channels: dict[str, str], titles: dict[str, str], plane: Powers, width: int
) -> list[alt.Chart]:
    """The points with their names, and the lines between these."""
    x, y, size = channels["x"], channels["y"], channels["size"]
    at_x, at_y = across(x, titles[x], width, log=True), upward(y, titles[y], _HEIGHT, log=True)
    for axis, domain in ((at_x, plane.x), (at_y, plane.y)):
        axis["scale"] = alt.Scale(type="log", domain=domain, nice=False)
        axis["axis"]["values"] = powers_of_ten(domain)
    at_y["axis"]["minExtent"] = at_y["axis"]["maxExtent"] = _AXIS
    hidden = {*channels["roofs"].split(","), *channels.get("measured", "").split(",")}
    shown = {
        column: titles.get(column, axis_title(column))
        for column in map(str, data)
        if column not in hidden
    }
    colours = coloured(data, channels["color"], width)
    base = alt.Chart()
    circles = base.mark_circle(opacity=0.85, stroke=PAPER, strokeWidth=0.5).encode(
        x=at_x, y=at_y, size=area(size, titles[size], _AREAS, _round(data[size].max())),
        **colours, **hover(shown),
    )  # fmt: skip
    lines = (
        base.transform_filter("datum.has_line")
        .mark_rule(strokeWidth=0.75)
        .encode(x=at_x, y=at_y, x2="name_x:Q", y2="name_y:Q", **colours)
    )
    names = base.mark_text(
        align={"expr": "datum.align"},
        dx={"expr": "datum.align === 'left' ? 2 : -2"},
        color=INK,
        fontSize=CONFIG["axis"]["labelFontSize"],
    ).encode(x="name_x:Q", y="name_y:Q", text="name:N")
    return [lines, circles, names]


def _round(largest: float) -> list[float]:
    """Two values for a legend, with one digit."""
    power = 10.0 ** floor(log10(largest)) if largest > 0 else 1.0
    first = int(largest / power) * power
    return [first / 5, first]
