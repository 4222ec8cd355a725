"""The roofs of a roofline: what a device can do at most, by the operations per byte."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, degrees, hypot

import altair as alt
import pandas as pd

from traceql.result.chart.data import chart_of
from traceql.result.chart.placing import LETTER, Box, boxes, overlapping
from traceql.result.chart.powers import Powers
from traceql.result.chart.theme import CONFIG, QUIET

_GIGA_OF_TERA = 1e3
_DOT, _BETWEEN = 1.5, 4  # pixels: half the side of the boxes that cover a line, and their distance
_HALF_LETTER, _OFF = 6, 9  # pixels: half the side of a letter's box, and its middle from the line
_FREE = 8  # pixels between a text and the ends of its line
_DASHES = [5, 4]

_Pixel = tuple[float, float]  # to the right and down


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
        for value, text in _said((roof.tflops, roof.is_measured) for roof in own):
            down = plane.down(value)
            yield f"{dtype} {text}".strip(), (0.0, down), (plane.width, down)
    for value, text in _said(((roof.gbps, roof.is_measured) for roof in roofs), " GB/s"):
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
    places = pd.DataFrame(
        [
            {
                "text": text.text,
                "x": plane.value_across(text.x),
                "y": plane.value_down(text.y),
                "angle": text.angle,
            }
            for text in texts
        ]
    )
    yield (
        chart_of(places)
        .mark_text(
            angle={"expr": "datum.angle"},
            baseline="middle",
            color=QUIET,
            fontSize=CONFIG["axis"]["labelFontSize"],
        )
        .encode(x="x:Q", y="y:Q", text="text:N")
    )


def _said(ceilings: Iterable[tuple[float, bool]], unit: str = "") -> Iterator[tuple[float, str]]:
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
