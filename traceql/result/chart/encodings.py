"""Encodings: how a column is placed, scaled, labeled and colored in a chart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import altair as alt
import pandas as pd

from traceql.result.chart.data import axis_title, field_of
from traceql.result.chart.theme import CONFIG, INK, PAPER, SEQUENCE, UNKNOWN, colour

_LETTER, _SYMBOL = 5.8, 28  # pixels: a letter in a legend, and the symbol and space around the text
_TICK = 90  # pixels between the ticks of an axis
_IN_ORDER = ("rank", "stream", "layer", "gpu")
_LABEL_LETTER = 5.4  # pixels of a letter on an axis
SHARE_OF_LABELS = 1 / 3  # of the width
# Shortened in the middle, because kernels differ at the end; and by letters, because measuring a
# long template name takes a second.
_SHORT_NAME = (
    "datum.value === null ? '{null}' : length(datum.label) <= {letters} ? datum.label"
    " : slice(replace(datum.label, /^void /, ''), 0, {first}) + '…' + slice(datum.label, -{last})"
)
_BINARY_SIZE = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB'"
    " : datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB'"
    " : datum.value + ' B'"
)
_FAINT_BETWEEN_POWERS = {
    "condition": {"test": "abs(log(datum.value) / LN10 % 1) < 1e-6", "value": 0.7},
    "value": 0.15,
}
_LEAST_SPAN = 16  # between the ends of an axis of sizes
_LONGEST_GRADIENT, _SHORTEST_GRADIENT = 160, 60  # pixels
_WIDE = 30  # from this ratio of largest to smallest value on, the scale is logarithmic
LETTER, MARGIN = 5.6, 5  # pixels: of the text at a bar, and between the two


def across(column: str, title: str, width: int, *, log: bool = False) -> alt.X:
    """A quantity on the horizontal axis of that length in pixels; percentages from 0 to 100."""
    return alt.X(**_quantity(column, title, width, log=log))


def upward(column: str, title: str, height: int, *, log: bool = False) -> alt.Y:
    """A quantity on the vertical axis of that height in pixels."""
    return alt.Y(**_quantity(column, title, height, log=log))


def _quantity(column: str, title: str, length: int, *, log: bool = False) -> dict[str, Any]:
    scale: dict[str, Any] = {"type": "log", "nice": True} if log else {}
    if column.endswith("_pct"):
        scale["domain"] = [0, 100]
    grid: Any = _FAINT_BETWEEN_POWERS if log else alt.Undefined
    return {
        "field": field_of(column),
        "type": "quantitative",
        "title": title,
        "scale": alt.Scale(**scale),
        "axis": alt.Axis(tickCount=max(3, length // _TICK), gridOpacity=grid),
    }


def up_to(axis: alt.Axis, greatest: float) -> alt.Axis:
    """The axis with ticks up to a value, beyond which there are texts instead."""
    axis["gridOpacity"] = {
        "condition": {"test": f"datum.value <= {greatest}", "value": 0.7},
        "value": 0,
    }
    axis["labelExpr"] = f"datum.value <= {greatest} ? datum.label : ''"
    return axis


def sizes(column: str, values: pd.Series) -> alt.X:
    """Bytes on a horizontal axis with powers of two."""
    spare = math.sqrt(max(1, _LEAST_SPAN * values.min() / values.max()))
    return alt.X(
        field=field_of(column),
        type="quantitative",
        title=axis_title(column),
        scale=alt.Scale(
            type="log", base=2, nice=True, domain=[values.min() / spare, values.max() * spare]
        ),
        axis=alt.Axis(labelExpr=_BINARY_SIZE, tickCount=8, labelOverlap=True),
    )


def is_wide(values: pd.Series) -> bool:
    """Whether the values are positive and span several orders of magnitude."""
    smallest, largest = values.min(), values.max()
    return bool(smallest > 0 and largest / smallest > _WIDE)


def row_axis(
    data: pd.DataFrame, column: str, width: int, order: Sequence[Any] | None = None
) -> alt.Y:
    """One row per value: ranks and the like by number, others as they come or in `order`."""
    numbered = pd.api.types.is_numeric_dtype(data[column])
    letters = int(width * SHARE_OF_LABELS / _LABEL_LETTER)
    half = letters // 2
    return alt.Y(
        field=field_of(column),
        type="nominal",
        sort="ascending" if column in _IN_ORDER else order,
        title=axis_title(column) if numbered else None,
        axis=alt.Axis(
            labelLimit=width * SHARE_OF_LABELS,
            labelExpr=_SHORT_NAME.format(null=UNKNOWN, letters=letters, first=half, last=half - 1),
            grid=False,
        ),
    )


def beside_labels(data: pd.DataFrame, column: str, width: int) -> int:
    """The width that the labels of rows leave for bars, and for the legend above these."""
    longest = max(map(len, map(str, data[column])), default=0)
    return int(width - min(longest * _LABEL_LETTER, width * SHARE_OF_LABELS)) - _SYMBOL


def coloured(
    data: pd.DataFrame, column: str | None, width: int, order: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Each value in the color that the palette assigns to it, otherwise in the next free one.

    Args:
        width: that the legend may take, pixels.
    """
    if column is None:
        return {}
    values = list(order or _in_order(data[column]))
    own = [colour(value) for value in values]
    free = cycle([one for one in SEQUENCE if one not in own] or SEQUENCE)
    scale = alt.Scale(domain=values, range=[one or next(free) for one in own])
    title = axis_title(column) if any(isinstance(value, int) for value in values) else None
    longest = max((len(str(value)) for value in values), default=0)
    room = width - (len(title) * _LETTER if title else 0)
    columns = max(1, int(room // (longest * _LETTER + _SYMBOL)))
    legend = alt.Legend(title=title, columns=columns, labelLimit=width // 2)
    return {"color": alt.Color(field=field_of(column), type="nominal", scale=scale, legend=legend)}


def gradient(data: pd.DataFrame, rows: str, width: int, title: str) -> alt.Legend:
    """The legend of a continuous scale above the cells; no longer than these are wide."""
    room = beside_labels(data, rows, width) - len(title) * _LETTER - _SYMBOL
    length = min(_LONGEST_GRADIENT, max(room, _SHORTEST_GRADIENT))
    return alt.Legend(title=title, orient="top", gradientLength=length, gradientThickness=8)


def hover(columns: dict[str, str]) -> dict[str, Any]:
    """The tooltip of a mark: fields and their titles."""
    return {
        "tooltip": [
            alt.Tooltip(field=field_of(field), title=title) for field, title in columns.items()
        ]
    }


def _in_order(values: pd.Series) -> list[Any]:
    """The distinct values: numbers sorted, texts as they come."""
    distinct = [v.item() if hasattr(v, "item") else v for v in values.dropna().unique()]
    return sorted(distinct) if all(isinstance(v, int) for v in distinct) else distinct


@dataclass(frozen=True)
class Area:
    """What a chart shows: the values at both ends of its axis, and the pixels between them."""

    low: float
    high: float
    pixels: float


def beside(bars: pd.DataFrame, area: Area) -> pd.DataFrame:
    """The bars with a place for each label: where, on which side of that, and in which color.

    It is right of the bar, or left of it, or else in it.

    Args:
        bars: columns start, end and label.
    """
    low, high = bars[["start", "end"]].min(axis=1), bars[["start", "end"]].max(axis=1)
    pixel = (area.high - area.low) / area.pixels
    needed = (bars["label"].str.len() * LETTER + 2 * MARGIN) * pixel
    right, left = area.high - high > needed, low - area.low > needed
    return bars.assign(
        at=high.where(right, low.where(left, high)),
        align=right.map({True: "left", False: "right"}),
        ink=(right | left).map({True: INK, False: PAPER}),
    )


def label_marks(base: alt.Chart) -> alt.Chart:
    """The labels of the bars of a chart, where `beside` has placed them."""
    marks: alt.Chart = base.mark_text(
        align={"expr": "datum.align"},
        dx={"expr": f"datum.align === 'left' ? {MARGIN} : -{MARGIN}"},
        fontSize=CONFIG["axis"]["labelFontSize"],
    ).encode(
        x="at:Q",
        text="label:N",
        color=alt.Color(field="ink", type="nominal", scale=None),
    )
    return marks


def signed(value: float, decimals: int) -> str:
    """A difference as people write it: +1.20 or \u22121.20; without a sign if it looks like 0."""
    rounded = round(value, decimals)
    return f"{rounded:+,.{decimals}f}".replace("-", "\u2212") if rounded else "0"


def percent(share: float) -> str:
    """A relative difference as people write it, with a decimal where that says something."""
    if share >= 9.995:
        return f"\u00d7{1 + share:,.0f}"
    return signed(100 * share, 0 if abs(share) >= 0.0995 else 1) + "%"
