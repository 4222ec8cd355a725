"""Bar charts: one quantity per row, whole or stacked from its parts."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.chart.data import axis_title, chart_of, field_of, in_display_units
from traceql.chart.encodings import across, coloured, hover, row_axis
from traceql.chart.theme import PAPER, ROW_HEIGHT

_MOST_ROWS = 30


def bar(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    x, y, group = channels["x"], channels["y"], channels.get("group")
    colour = group or channels.get("color")
    data, (title,) = in_display_units(table, [x])
    data = _largest(_readable(data, colour), x, y)
    order = list(data.groupby(y, dropna=False)[x].sum().sort_values(ascending=False).index)
    summed = bool(data[y].duplicated().any()) and not group
    encoding: dict[str, Any] = {
        "x": across(x, title, width),
        "y": row_axis(data, y, width, order if summed else None),
    }
    step = ROW_HEIGHT
    if group:
        encoding |= {
            "yOffset": alt.YOffset(field=field_of(group), type="nominal", sort="ascending")
        }
        step = max(ROW_HEIGHT, ROW_HEIGHT // 2 * data[group].nunique())
    names = {name: axis_title(name) for name in (y, colour) if name} | {x: title}
    encoding |= coloured(data, colour, width) | hover(names)
    if colour == y:
        encoding["color"].legend = None
    return _drawn(data, encoding, step)


def stacked(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    columns, y = channels["x"].split(","), channels["y"]
    data, (title,) = in_display_units(table, columns)
    if len(columns) > 1:
        data, value, part = _parts(data, columns, y), "value", "part"
        order = [column.removesuffix("_ns") for column in columns]
        title = f"time ({title.rpartition('(')[2]}"
    else:
        value, part, order = columns[0], channels["color"], None
    data[value] = data[value].clip(lower=0)  # a negative value cannot be stacked
    data = _largest(_readable(data, part), value, y)
    encoding: dict[str, Any] = {
        "x": across(value, title, width),
        "y": row_axis(data, y, width),
    }
    encoding |= coloured(data, part, width, order)
    if order:
        place = {name: number for number, name in enumerate(order)}
        data["place"] = data[part].map(place)
        encoding["order"] = alt.Order(field="place", type="quantitative")
    encoding |= hover({y: axis_title(y), part: axis_title(part), value: title})
    return _drawn(data, encoding, ROW_HEIGHT + 6)


def _drawn(data: pd.DataFrame, encoding: dict[str, Any], step: int) -> alt.Chart:
    bars = chart_of(data).mark_bar(stroke=PAPER, strokeWidth=0.5, cornerRadiusEnd=1.5)
    drawn: alt.Chart = bars.encode(**encoding).properties(height=alt.Step(step))
    return drawn


def _parts(data: pd.DataFrame, columns: Sequence[str], y: str) -> pd.DataFrame:
    """One row per row and column; the parts of a row add up to the same sum as before."""
    named = data[[y, *columns]].rename(columns=lambda name: name.removesuffix("_ns"))
    parts = [column.removesuffix("_ns") for column in columns]
    return named.melt(id_vars=[y], value_vars=parts, var_name="part", value_name="value")


def _readable(data: pd.DataFrame, column: str | None) -> pd.DataFrame:
    """Booleans as yes and no, for the legend."""
    if column and data[column].dtype == bool:
        return data.assign(**{column: data[column].map({True: "yes", False: "no"})})
    return data


def _largest(data: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Keeps the values of y with the largest sums of x, in their original order."""
    if data[y].nunique(dropna=False) <= _MOST_ROWS:
        return data
    totals = data.groupby(y, dropna=False)[x].sum()
    return data[data[y].isin(totals.nlargest(_MOST_ROWS).index)]
