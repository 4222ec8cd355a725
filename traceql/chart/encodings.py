"""Where a column goes in a chart, and how it is written there."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from traceql.chart.data import axis_title
from traceql.chart.palette import colour

_LETTER, _SYMBOL = 6.2, 34  # pixels: a letter of a legend, and what stands around its text
_TICK = 90  # pixels between the marks of an axis
_IN_ORDER = ("rank", "stream", "layer", "gpu")
_SHORT_NAME = (  # cut by letters first: to measure a template's whole name takes a second
    "datum.value === null ? '(none)' : truncate(replace(datum.label, /^void /, ''), {letters})"
)
_BINARY_SIZE = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB'"
    " : datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB'"
    " : datum.value + ' B'"
)
_WIDE = 30  # a quantity whose largest value is this many times its smallest is drawn as a logarithm


def across(column: str, title: str, width: int) -> alt.X:
    """A quantity along the horizontal axis, so many pixels long; percentages from 0 to 100."""
    return alt.X(**_quantity(column, title, width))


def upward(column: str, title: str, height: int, *, log: bool = False) -> alt.Y:
    """A quantity along the vertical axis."""
    return alt.Y(**_quantity(column, title, height, log=log))


def _quantity(column: str, title: str, length: int, *, log: bool = False) -> dict[str, Any]:
    scale: dict[str, Any] = {"type": "log", "nice": True} if log else {}
    if column.endswith("_pct"):
        scale["domain"] = [0, 100]
    return {
        "field": column,
        "type": "quantitative",
        "title": title,
        "scale": alt.Scale(**scale),
        "axis": alt.Axis(tickCount=max(3, length // _TICK)),
    }


def sizes(column: str) -> alt.X:
    """Bytes, by powers of two."""
    return alt.X(
        field=column,
        type="quantitative",
        title=axis_title(column),
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(labelExpr=_BINARY_SIZE, tickCount=8, labelOverlap=True),
    )


def is_wide(values: pd.Series) -> bool:
    """Whether the values are positive and of several orders of magnitude."""
    smallest, largest = values.min(), values.max()
    return bool(smallest > 0 and largest / smallest > _WIDE)


def rows(data: pd.DataFrame, column: str, width: int, order: Sequence[Any] | None = None) -> alt.Y:
    """A row for each value, ranks by number, others as they come or in a given order."""
    numbered = pd.api.types.is_numeric_dtype(data[column])
    return alt.Y(
        field=column,
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
    """Each value in its own colour, else in the palette's next."""
    if column is None:
        return {}
    values = list(order or _in_order(data[column]))
    own: list[Any] = [colour(value) for value in values]
    scale = alt.Scale(domain=values, range=own) if all(own) and own else alt.Undefined
    title = axis_title(column) if any(isinstance(value, int) for value in values) else None
    longest = max((len(str(value)) for value in values), default=0)
    columns = max(1, int(width // (longest * _LETTER + _SYMBOL)))
    legend = alt.Legend(title=title, columns=columns, labelLimit=width // 2)
    return {"color": alt.Color(field=column, type="nominal", scale=scale, legend=legend)}


def hover(columns: dict[str, str]) -> dict[str, Any]:
    """What a pointer over a mark shows: fields and their titles."""
    return {"tooltip": [alt.Tooltip(field=field, title=title) for field, title in columns.items()]}


def _in_order(values: pd.Series) -> list[Any]:
    """Distinct values, numbers by size, texts as they come."""
    distinct = [v.item() if hasattr(v, "item") else v for v in values.dropna().unique()]
    return sorted(distinct) if all(isinstance(v, int) for v in distinct) else distinct
