"""Altair charts of query results, as their files' heads describe them."""

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import QueryInvalid
from traceql.query.head import Chart
from traceql.units import display_unit

_WIDTH, _HEIGHT, _ROW_HEIGHT = 640, 260, 22
_LONGEST_LABEL = 260  # pixels
# Okabe and Ito's palette, which colour-blind readers can tell apart.
_COLOURS = "#0072B2 #E69F00 #009E73 #CC79A7 #56B4E9 #D55E00 #F0E442 #999999".split()


def drawn(table: pa.Table, chart: Chart) -> alt.Chart:
    """The chart of a result.

    Raises:
        QueryInvalid: no such kind of chart.
    """
    kinds: dict[str, Callable[[pa.Table, dict[str, str]], alt.Chart]] = {
        "bar": _bar,
        "line": _line,
        "stacked": _stacked,
        "timeline": _timeline,
    }
    if chart.kind not in kinds:
        raise QueryInvalid(f"no chart '{chart.kind}' (there are {', '.join(kinds)})")
    return kinds[chart.kind](table, chart.channels).configure_range(category=_COLOURS)


def _bar(table: pa.Table, channels: dict[str, str]) -> alt.Chart:
    data, (title,) = _in_display_units(table, [channels["x"]])
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(x=_quantity(channels["x"], title), y=_rows(channels["y"]), **_colour(channels))
        .properties(width=_WIDTH, height=alt.Step(_ROW_HEIGHT))
    )


def _line(table: pa.Table, channels: dict[str, str]) -> alt.Chart:
    data, (x_title, y_title) = _in_display_units(table, [channels["x"]], [channels["y"]])
    return (
        alt.Chart(data)
        .mark_line(interpolate="step-after")
        .encode(
            x=_quantity(channels["x"], x_title),
            y=_quantity(channels["y"], y_title),
            **_colour(channels),
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )


def _stacked(table: pa.Table, channels: dict[str, str]) -> alt.Chart:
    """Several columns, or the values of one by colour, stacked in one bar per row of y."""
    columns = channels["x"].split(",")
    data, (title,) = _in_display_units(table, columns)
    if len(columns) > 1:
        names = {column: column.removesuffix("_ns") for column in columns}
        data = data.rename(columns=names).melt(
            id_vars=[channels["y"]], value_vars=list(names.values()),
            var_name="part", value_name="value",
        )  # fmt: skip
        _, _, unit = title.rpartition(" ")
        colour = {"color": alt.Color("part", type="nominal", sort=list(names.values()))}
        x = _quantity("value", f"time {unit}")
    else:
        x, colour = _quantity(columns[0], title), _colour(channels)
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(x=x, y=_rows(channels["y"]), **colour)
        .properties(width=_WIDTH, height=alt.Step(_ROW_HEIGHT))
    )


def _timeline(table: pa.Table, channels: dict[str, str]) -> alt.Chart:
    start, width = channels["x"], channels["width"]
    end = pc.add(table[start], table[width])
    table = table.append_column("end", end)
    data, (title,) = _in_display_units(table, [start, "end"])
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(x=_quantity(start, title), x2="end", y=_rows(channels["y"]), **_colour(channels))
        .properties(width=_WIDTH, height=alt.Step(2 * _ROW_HEIGHT))
    )


def _quantity(column: str, title: str) -> Any:
    return {"field": column, "type": "quantitative", "title": title}


def _rows(column: str) -> alt.Y:
    axis = alt.Axis(labelLimit=_LONGEST_LABEL)
    return alt.Y(field=column, type="nominal", sort=None, title=column, axis=axis)


def _colour(channels: dict[str, str]) -> dict[str, Any]:
    column = channels.get("color")
    return {"color": alt.Color(field=column, type="nominal", title=column)} if column else {}


def _in_display_units(table: pa.Table, *groups: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """The data with each group of columns in one unit, and a title for each group."""
    data = table.to_pandas()
    titles = []
    for columns in groups:
        largest = max((abs(pc.max(table[c]).as_py() or 0) for c in columns), default=0)
        unit = display_unit(columns[0], largest)
        titles.append(unit.title if unit else columns[0])
        if unit:
            data[columns] = data[columns] / unit.divisor
    return data, titles
