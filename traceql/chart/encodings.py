"""Encodings: how a column is placed, scaled, labeled and colored in a chart."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from traceql.chart.data import axis_title, field_of
from traceql.chart.palette import colour

_LETTER, _SYMBOL = 6.2, 34  # pixels: a letter in a legend, and the symbol and space around the text
_TICK = 90  # pixels between the ticks of an axis
_IN_ORDER = ("rank", "stream", "layer", "gpu")
_SHORT_NAME = (  # shortened by letters first, because measuring a long template name takes a second
    "datum.value === null ? '(none)' : truncate(replace(datum.label, /^void /, ''), {letters})"
)
_BINARY_SIZE = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB'"
    " : datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB'"
    " : datum.value + ' B'"
)
_WIDE = 30  # from this ratio of largest to smallest value on, the scale is logarithmic


def across(column: str, title: str, width: int) -> alt.X:
    """A quantity on the horizontal axis of that length in pixels; percentages from 0 to 100."""
    return alt.X(**_quantity(column, title, width))


def upward(column: str, title: str, height: int, *, log: bool = False) -> alt.Y:
    """A quantity on the vertical axis of that height in pixels."""
    return alt.Y(**_quantity(column, title, height, log=log))


def _quantity(column: str, title: str, length: int, *, log: bool = False) -> dict[str, Any]:
    scale: dict[str, Any] = {"type": "log", "nice": True} if log else {}
    if column.endswith("_pct"):
        scale["domain"] = [0, 100]
    return {
        "field": field_of(column),
        "type": "quantitative",
        "title": title,
        "scale": alt.Scale(**scale),
        "axis": alt.Axis(tickCount=max(3, length // _TICK)),
    }


def sizes(column: str) -> alt.X:
    """Bytes on a horizontal axis with powers of two."""
    return alt.X(
        field=field_of(column),
        type="quantitative",
        title=axis_title(column),
        scale=alt.Scale(type="log", base=2),
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
    return alt.Y(
        field=field_of(column),
        type="nominal",
        sort="ascending" if column in _IN_ORDER else order,
        title=axis_title(column) if numbered else None,
        axis=alt.Axis(
            labelLimit=width // 3,
            labelExpr=_SHORT_NAME.format(letters=width // 19),
            grid=False,
        ),
    )


def coloured(
    data: pd.DataFrame, column: str | None, width: int, order: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Each value in the color that the palette assigns to it, otherwise in the next free one."""
    if column is None:
        return {}
    values = list(order or _in_order(data[column]))
    own: list[Any] = [colour(value) for value in values]
    scale = alt.Scale(domain=values, range=own) if all(own) and own else alt.Undefined
    title = axis_title(column) if any(isinstance(value, int) for value in values) else None
    longest = max((len(str(value)) for value in values), default=0)
    columns = max(1, int(width // (longest * _LETTER + _SYMBOL)))
    legend = alt.Legend(title=title, columns=columns, labelLimit=width // 2)
    return {"color": alt.Color(field=field_of(column), type="nominal", scale=scale, legend=legend)}


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
