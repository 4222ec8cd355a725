"""Bar charts: the quantities of each row, side by side or stacked."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.data import axis_title, chart_of, field_of, in_display_units, readable
from traceql.result.chart.encodings import across, beside_labels, coloured, hover, row_axis
from traceql.result.chart.theme import PAPER, ROW_HEIGHT

_MOST_ROWS = 30
_PART_IN_WORDS = (
    "replace(replace(replace(datum.label, /_/g, ' '), /^kv /, 'KV '), /^cuda /, 'CUDA ')"
)
_SIDE_BY_SIDE = 15  # pixels of a bar in a group


def bar(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    x, y, group = channels["x"], channels["y"], channels.get("group")
    columns, order = x.split(","), None
    data, (title,) = in_display_units(table, columns)
    if len(columns) > 1:
        order = [axis_title(column) for column in columns]
        x, group, title = "value", "quantity", title.rpartition("(")[2].rstrip(")")
        x += "_pct" if title == "%" else ""
        named = data[[y, *columns]].rename(columns=dict(zip(columns, order, strict=True)))
        data = named.melt(id_vars=[y], var_name=group, value_name=x).dropna(subset=[x])
    colour = group or channels.get("color")
    data = _largest(readable(data, colour), x, y)
    rows = None if group else _longest_first(data, x, y)
    encoding: dict[str, Any] = {
        "x": across(x, title, width),
        "y": row_axis(data, y, width, rows),
    }
    if group:
        encoding |= {
            "yOffset": alt.YOffset(field=field_of(group), type="nominal", sort=order or "ascending")
        }
    names = {name: axis_title(name) for name in (y, colour) if name} | {x: title}
    encoding |= coloured(data, colour, beside_labels(data, y, width), order) | hover(names)
    if colour == y:
        encoding["color"].legend = None
    return _drawn(data, encoding, _SIDE_BY_SIDE if group else ROW_HEIGHT)


def stacked(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    columns, y = channels["x"].split(","), channels["y"]
    data, (title,) = in_display_units(table, columns)
    rows = _longest_first(data, columns[0], y)
    if len(columns) > 1:
        data, value, part = named_parts(data, columns, y), "value", "part"
        seen = set(data.loc[data[value] > 0, part]) or set(data[part])
        order = [name for name in map(part_name, columns) if name in seen]
        what = "memory" if columns[0].endswith("_bytes") else "time"
        title = f"{what} ({title.rpartition('(')[2]}"
    else:
        value, part, order = columns[0], channels["color"], None
    data[value] = data[value].clip(lower=0)  # a negative value cannot be stacked
    data = _largest(readable(data, part), value, y)
    encoding: dict[str, Any] = {
        "x": across(value, title, width),
        "y": row_axis(data, y, width, rows),
    }
    encoding |= coloured(data, part, beside_labels(data, y, width), order)
    if order:
        place = {name: number for number, name in enumerate(order)}
        data = data[data[part].isin(place)].assign(place=lambda rows: rows[part].map(place))
        encoding["order"] = alt.Order(field="place", type="quantitative")
        encoding["color"]["legend"]["labelExpr"] = _PART_IN_WORDS
    encoding |= hover({y: axis_title(y), part: axis_title(part), value: title})
    return _drawn(data, encoding, ROW_HEIGHT + 6)


def _drawn(data: pd.DataFrame, encoding: dict[str, Any], step: int) -> alt.Chart:
    bars = chart_of(data).mark_bar(stroke=PAPER, strokeWidth=0.5, cornerRadiusEnd=1.5)
    drawn: alt.Chart = bars.encode(**encoding).properties(height=alt.Step(step))
    return drawn


def named_parts(data: pd.DataFrame, columns: Sequence[str], y: str) -> pd.DataFrame:
    """One row per row and column; the parts of a row add up to the same sum as before."""
    named = data[[y, *columns]].rename(columns={column: part_name(column) for column in columns})
    parts = [part_name(column) for column in columns]
    melted = named.melt(id_vars=[y], value_vars=parts, var_name="part", value_name="value")
    known = melted.dropna(subset=["value"])
    return known.groupby([y, "part"], as_index=False, sort=False, dropna=False).sum()


def _longest_first(data: pd.DataFrame, column: str, y: str) -> list[Any] | None:
    """The values of y by the sum of a column, if it has to be summed; otherwise they stay.

    A negative sum is as long as a positive one.
    """
    if not data[y].duplicated().any():
        return None
    sums = data.groupby(y, dropna=False)[column].sum().abs()
    return list(sums.sort_values(ascending=False, kind="stable").index)


def part_name(column: str) -> str:
    return column.removesuffix("_ns").removesuffix("_pct").removesuffix("_bytes")


def _largest(data: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Keeps the values of y with the largest sums of x, in their original order."""
    if data[y].nunique(dropna=False) <= _MOST_ROWS:
        return data
    totals = data.groupby(y, dropna=False)[x].sum().abs()
    return data[data[y].isin(totals.nlargest(_MOST_ROWS).index)]
