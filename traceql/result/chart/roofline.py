"""Rooflines: the work that was done per second, below what the device can do at most.

The roofs of a row are its own ceilings: operations per second, and bytes per second times the
operations per byte. Those of a data sheet are solid lines, and measured ones are dashed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, degrees, floor, hypot, log10, pi, sqrt
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.errors import QueryInvalid
from traceql.result.chart.encodings import (
    across,
    axis_title,
    chart_of,
    coloured,
    hover,
    in_display_units,
    layered,
    upward,
)
from traceql.result.chart.line_point_heatmap import area
from traceql.result.chart.plane import (
    LETTER,
    Box,
    Place,
    Point,
    Powers,
    boxes,
    overlapping,
    places,
    powers_of_ten,
)
from traceql.result.chart.theme import INK, LABEL_SIZE, PAPER, QUIET

_GIGA_OF_TERA = 1e3
_DOT, _BETWEEN = 1.5, 4  # pixels: half the side of the boxes that cover a line, and their distance
_HALF_LETTER, _OFF = 6, 9  # pixels: half the side of a letter's box, and its middle from the line
_FREE = 8  # pixels between a text and the ends of its line
_DASHES = [5, 4]

_Pixel = tuple[float, float]  # to the right and down
_HEIGHT = 340
_BESIDE_PLOT = 72  # pixels of the vertical axis with its title, and of the padding
_AXIS = 34  # pixels of the labels of the vertical axis
_AREAS = (20, 320)  # of the smallest and the largest circle, pixels
_MARGIN = 1.7  # factor between the outermost points and the ends of an axis
_AROUND_RIDGE = 4  # the same between the ridge of a roof and the ends
_BESIDE_NAME, _MOST_FOR_NAMES = 30, 0.4  # pixels beside a name at right; share of the width
_INTENSITY = "arithmetic intensity (FLOP per byte)"


@dataclass(frozen=True)
class Roof:
    """Ceilings that rows share.

    Attributes:
        tflops: floating-point operations per second, 1e12.
        gbps: bytes per second, 1e9.
    """

    dtype: str
    tflops: float
    gbps: float
    is_measured: bool

    @property
    def ridge(self) -> float:
        """The operations per byte from which on these are the limit, and not the bytes."""
        return self.tflops * _GIGA_OF_TERA / self.gbps

    def corners(self, plane: Powers) -> list[tuple[float, float]]:
        """The start of the slope, the ridge and the end of the flat roof, within the plane."""
        start = max(plane.x[0], plane.y[0] * _GIGA_OF_TERA / self.gbps)
        return [
            (start, start * self.gbps / _GIGA_OF_TERA),
            (self.ridge, self.tflops),
            (plane.x[1], self.tflops),
        ]


def roofs_of(rows: pd.DataFrame, channels: dict[str, str]) -> list[Roof]:
    """The distinct ceilings of the rows: those of the data sheet first, the highest first."""
    dtype = channels.get("dtype")
    found = set()
    for channel in ("roofs", "measured"):
        if channel not in channels:
            continue
        columns = channels[channel].split(",")
        known = rows.dropna(subset=columns)
        names = known[dtype].fillna("") if dtype else [""] * len(known)
        for name, tflops, gbps in zip(names, *(known[column] for column in columns), strict=True):
            found.add(Roof(name, tflops, gbps, channel == "measured"))
    return sorted(found, key=lambda roof: (roof.is_measured, -roof.tflops, roof.dtype))


@dataclass(frozen=True)
class Text:
    """A text along a line: where its middle is, pixels, and by how much it is turned."""

    text: str
    x: float
    y: float
    angle: float
    boxes: tuple[Box, ...]


def line_boxes(roofs: Iterable[Roof], plane: Powers) -> Iterator[Box]:
    """What the lines of roofs cover."""
    for roof in roofs:
        corners = [(plane.across(x), plane.down(y)) for x, y in roof.corners(plane)]
        for start, end in pairwise(corners):
            length = hypot(end[0] - start[0], end[1] - start[1])
            for number in range(int(length / _BETWEEN) + 1):
                share = number * _BETWEEN / length
                x, y = (a + (b - a) * share for a, b in zip(start, end, strict=True))
                yield Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT)


def roof_texts(roofs: Sequence[Roof], plane: Powers, taken: Sequence[Box]) -> list[Text]:
    """What the roofs are, above their lines; as little as possible of it covers what is drawn."""
    covered, texts = [*taken, *line_boxes(roofs, plane)], list[Text]()
    for text, start, end in _texts_of_lines(roofs, plane):
        choices = _along(start, end, text)
        if choices:
            drawn = boxes(covered)
            texts.append(min(choices, key=lambda each: overlapping(boxes(each.boxes), drawn)))
            covered += texts[-1].boxes
    return texts


def _texts_of_lines(roofs: Sequence[Roof], plane: Powers) -> Iterator[tuple[str, _Pixel, _Pixel]]:
    """The texts with the start and end of their lines."""
    for dtype in dict.fromkeys(roof.dtype for roof in roofs):
        own = [roof for roof in roofs if roof.dtype == dtype]
        for value, text in _format_ceilings((roof.tflops, roof.is_measured) for roof in own):
            down = plane.down(value)
            yield f"{dtype} {text}".strip(), (0.0, down), (plane.width, down)
    for value, text in _format_ceilings(((roof.gbps, roof.is_measured) for roof in roofs), " GB/s"):
        slope = max((roof for roof in roofs if roof.gbps == value), key=lambda roof: roof.ridge)
        start, ridge, _ = ((plane.across(x), plane.down(y)) for x, y in slope.corners(plane))
        yield text, start, ridge


def roof_layers(roofs: Sequence[Roof], texts: Sequence[Text], plane: Powers) -> Iterator[alt.Chart]:
    """The lines with their texts."""
    if not roofs:
        return
    corners = pd.DataFrame(
        [
            {"roof": number, "x": x, "y": y, "measured": roof.is_measured}
            for number, roof in enumerate(roofs)
            for x, y in roof.corners(plane)
        ]
    )
    for is_measured, dashes in ((False, []), (True, _DASHES)):
        if len(own := corners[corners["measured"] == is_measured]):
            lines = chart_of(own).mark_line(color=QUIET, strokeWidth=1.25, strokeDash=dashes)
            yield lines.encode(x="x:Q", y="y:Q", detail="roof:N")
    places = pd.DataFrame({
        "text": [text.text for text in texts],
        "x": [plane.value_across(text.x) for text in texts],
        "y": [plane.value_down(text.y) for text in texts],
        "angle": [text.angle for text in texts],
    })  # fmt: skip
    marks = chart_of(places).mark_text(
        angle={"expr": "datum.angle"}, baseline="middle", color=QUIET, fontSize=LABEL_SIZE
    )
    yield marks.encode(x="x:Q", y="y:Q", text="text:N")


def _format_ceilings(
    ceilings: Iterable[tuple[float, bool]], unit: str = ""
) -> Iterator[tuple[float, str]]:
    """Each ceiling in words; the one of the data sheet and the measured one in one text."""
    distinct = dict.fromkeys(ceilings)
    sheet = [value for value, is_measured in distinct if not is_measured]
    measured = [value for value, is_measured in distinct if is_measured]
    if len(sheet) == len(measured) == 1:
        yield max(*sheet, *measured), f"{sheet[0]:,.0f}{unit}, measured {measured[0]:,.0f}"
        return
    for value, is_measured in distinct:
        yield value, f"{'measured ' if is_measured else ''}{value:,.0f}{unit}"


def _along(start: _Pixel, end: _Pixel, text: str) -> list[Text]:
    """The text above a line at several places, from its end on; none if the line is too short."""
    across, down = end[0] - start[0], end[1] - start[1]
    length, needed = hypot(across, down), len(text) * LETTER
    direction = across / length, down / length
    firsts = range(int(length - needed - _FREE), _FREE, -_FREE)
    return [_turned(text, start, direction, first + needed / 2) for first in firsts]


def _turned(text: str, start: _Pixel, direction: tuple[float, float], middle: float) -> Text:
    """A text whose middle is that far along a line from its start."""
    right, down = direction

    def beside(along: float) -> tuple[float, float]:
        return start[0] + right * along + down * _OFF, start[1] + down * along - right * _OFF

    letters = (beside(middle + (n + 0.5 - len(text) / 2) * LETTER) for n in range(len(text)))
    boxes = tuple(
        Box(x - _HALF_LETTER, y - _HALF_LETTER, x + _HALF_LETTER, y + _HALF_LETTER)
        for x, y in letters
    )
    return Text(text, *beside(middle), degrees(atan2(down, right)), boxes)


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
    return layered(layers, data=chart_of(named).data, height=_HEIGHT)


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
    dx = {"expr": "datum.align === 'left' ? 2 : -2"}
    names = base.mark_text(align={"expr": "datum.align"}, dx=dx, color=INK, fontSize=LABEL_SIZE)
    return [lines, circles, names.encode(x="name_x:Q", y="name_y:Q", text="name:N")]


def _round(largest: float) -> list[float]:
    """Two values for a legend, with one digit."""
    power = 10.0 ** floor(log10(largest)) if largest > 0 else 1.0
    first = int(largest / power) * power
    return [first / 5, first]
