"""Altair charts of query results, as their files' heads describe them.

-- @chart bar x=total_ns y=name color=category      a bar per row
-- @chart bar x=median_ns y=phase group=rank        bars of several ranks side by side
-- @chart stacked x=computing_ns,idle_ns y=rank     several columns, or one by colour, in a bar
-- @chart line x=ts y=mean_queued color=rank
-- @chart point x=ts y=dur color=cause
-- @chart heatmap x=number y=layer color=dur        a cell per row
-- @chart timeline x=gpu_ts width=gpu_dur y=rank color=phase
"""

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import QueryInvalid
from traceql.palette import COLOURS, SEQUENCE
from traceql.query.head import Chart
from traceql.units import display_unit

_WIDTH, _HEIGHT, _ROW_HEIGHT = 640, 260, 22
_LONGEST_LABEL = 260  # pixels
_Channels = dict[str, str]


def drawn(table: pa.Table, chart: Chart) -> alt.Chart:
    """The chart of a result.

    Raises:
        QueryInvalid: no such kind of chart.
    """
    kinds: dict[str, Callable[[pa.Table, _Channels], alt.Chart]] = {
        "bar": _bar,
        "heatmap": _heatmap,
        "line": _line,
        "point": _point,
        "stacked": _stacked,
        "timeline": _timeline,
    }
    if chart.kind not in kinds:
        raise QueryInvalid(f"no chart '{chart.kind}' (there are {', '.join(kinds)})")
    plain = kinds[chart.kind](table, chart.channels)
    finished: alt.Chart = plain.configure_range(category=SEQUENCE)
    return finished


def _bar(table: pa.Table, channels: _Channels) -> alt.Chart:
    data, (title,) = _in_display_units(table, [channels["x"]])
    encoding: dict[str, Any] = {
        "x": _quantity(channels["x"], title),
        "y": _rows(channels["y"]),
    }
    step = _ROW_HEIGHT
    if group := channels.get("group"):
        encoding |= {"yOffset": alt.YOffset(field=group, type="nominal")} | _colour(data, group)
        step //= 2
    encoding |= _colour(data, channels.get("color"))
    return _sized(alt.Chart(data).mark_bar().encode(**encoding), alt.Step(step))


def _line(table: pa.Table, channels: _Channels) -> alt.Chart:
    return _plane(table, channels, lambda chart: chart.mark_line(interpolate="step-after"))


def _point(table: pa.Table, channels: _Channels) -> alt.Chart:
    return _plane(table, channels, lambda chart: chart.mark_point(filled=True, size=60))


def _plane(
    table: pa.Table, channels: _Channels, marked: Callable[[alt.Chart], alt.Chart]
) -> alt.Chart:
    data, (x_title, y_title) = _in_display_units(table, [channels["x"]], [channels["y"]])
    encoded = marked(alt.Chart(data)).encode(
        x=_quantity(channels["x"], x_title),
        y=_quantity(channels["y"], y_title),
        **_colour(data, channels.get("color")),
    )
    return _sized(encoded, _HEIGHT)


def _stacked(table: pa.Table, channels: _Channels) -> alt.Chart:
    columns = channels["x"].split(",")
    data, (title,) = _in_display_units(table, columns)
    if len(columns) > 1:
        names = {column: column.removesuffix("_ns") for column in columns}
        data = data.rename(columns=names).melt(
            id_vars=[channels["y"]], value_vars=list(names.values()),
            var_name="part", value_name="value",
        )  # fmt: skip
        unit = title.rpartition(" ")[2]
        x, colour = _quantity("value", f"time {unit}"), _colour(data, "part", list(names.values()))
    else:
        x, colour = _quantity(columns[0], title), _colour(data, channels["color"])
    bars = alt.Chart(data).mark_bar().encode(x=x, y=_rows(channels["y"]), **colour)
    return _sized(bars, alt.Step(_ROW_HEIGHT))


def _heatmap(table: pa.Table, channels: _Channels) -> alt.Chart:
    data, (title,) = _in_display_units(table, [channels["color"]])
    axis = alt.Axis(labelOverlap=True)
    encoding = {
        "x": alt.X(field=channels["x"], type="ordinal", axis=axis),
        "y": alt.Y(field=channels["y"], type="ordinal", axis=axis),
        "color": alt.Color(
            field=channels["color"],
            type="quantitative",
            title=title,
            scale=alt.Scale(scheme="viridis"),
        ),
    }
    cells = alt.Chart(data).mark_rect().encode(**encoding)
    return _sized(cells, 2 * _HEIGHT)


def _timeline(table: pa.Table, channels: _Channels) -> alt.Chart:
    start, width = channels["x"], channels["width"]
    table = table.append_column("end", pc.add(table[start], table[width]))
    data, (title,) = _in_display_units(table, [start, "end"])
    encoding = {"x": _quantity(start, title), "x2": alt.X2(field="end"), "y": _rows(channels["y"])}
    bars = alt.Chart(data.dropna(subset=[start])).mark_bar(stroke="white", strokeWidth=0.5)
    bars = bars.encode(**encoding, **_colour(data, channels.get("color")))
    return _sized(bars, alt.Step(_ROW_HEIGHT))


def _sized(chart: alt.Chart, height: int | alt.Step) -> alt.Chart:
    sized: alt.Chart = chart.properties(width=_WIDTH, height=height)
    return sized


def _quantity(column: str, title: str) -> Any:
    return {"field": column, "type": "quantitative", "title": title}


def _rows(column: str) -> alt.Y:
    """Rows in the order of the data, ranks by number; the title stands above, clear of labels."""
    axis = alt.Axis(
        labelLimit=_LONGEST_LABEL, titleAngle=0, titleAlign="right", titleAnchor="start",
        titleX=-6, titleY=-8,
    )  # fmt: skip
    order = "ascending" if column == "rank" else None
    return alt.Y(field=column, type="nominal", sort=order, title=column, axis=axis)


def _colour(
    data: pd.DataFrame, column: str | None, order: list[str] | None = None
) -> dict[str, Any]:
    """Each value's own colour where it has one, else the palette's in order."""
    if column is None:
        return {}
    values = order or [v for v in dict.fromkeys(data[column]) if isinstance(v, str)]
    if not values or any(value not in COLOURS for value in values):
        return {"color": alt.Color(field=column, type="nominal", title=column, sort=order)}
    scale = alt.Scale(domain=values, range=[COLOURS[value] for value in values])
    return {"color": alt.Color(field=column, type="nominal", title=column, scale=scale)}


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
