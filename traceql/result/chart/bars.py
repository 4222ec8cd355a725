"""Bar charts: the quantities of each row, side by side, stacked, or as parts of a total."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.encodings import (
    SHARE_OF_LABELS,
    across,
    axis_title,
    beside_labels,
    chart_of,
    coloured,
    field_of,
    hover,
    in_display_units,
    is_wide,
    layered,
    readable,
    row_axis,
)
from traceql.result.chart.theme import CONFIG, INK, PAPER, QUIET, ROW_HEIGHT

_MOST_ROWS = 30
_PART_IN_WORDS = (
    "replace(replace(replace(datum.label, /_/g, ' '), /^kv /, 'KV '), /^cuda /, 'CUDA ')"
)
_SIDE_BY_SIDE = 15  # pixels of a bar in a group
_PART_MOST_ROWS = 40  # of a panel
_LETTER = 5.6  # pixels
_TOTAL = 58  # pixels: room for the text of a total
_STEP = ROW_HEIGHT + 4  # pixels
_TICK = 18  # pixels: length of the line at a total that is not where a bar ends
_EDGE = 2 * CONFIG["padding"] + 14  # pixels
_DECIMALS = 3  # of a total below 10; of larger ones, fewer
_SPAN_STEP = 18  # pixels of a row


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
    axes = {"x": across(x, title, width), "y": row_axis(data, y, width, rows)}
    encoding: dict[str, Any] = axes
    if group:
        sort = order or "ascending"
        encoding["yOffset"] = alt.YOffset(field=field_of(group), type="nominal", sort=sort)
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
    axes = {"x": across(value, title, width), "y": row_axis(data, y, width, rows)}
    encoding: dict[str, Any] = axes
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


@dataclass(frozen=True)
class _Plot:
    """What all panels share; widths in pixels."""

    y: str
    total: str
    title: str
    order: list[str]
    labels: int
    width: int


def parts(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    """Positive parts go right from zero and negative ones left; the text is their sum."""
    columns, y, total = channels["x"].split(","), channels["y"], channels["total"]
    panel = channels["panel"]
    data, (title,) = in_display_units(table, [*columns, total])
    known = named_parts(data, columns, y)
    seen = set(known.loc[known["value"] != 0, "part"])
    longest = max((len(str(value)) for value in data[y]), default=0)
    labels = int(min(longest * _LETTER, width * SHARE_OF_LABELS)) + 8
    plot = _Plot(
        y=y,
        total=total,
        title=f"time ({title.rpartition('(')[2]}; the number is the sum",
        order=[name for name in map(part_name, columns) if name in seen],
        labels=labels,
        width=width - labels - _EDGE,
    )
    panels = [
        _panel(own, columns, plot, str(name)) for name, own in data.groupby(panel, sort=False)
    ]
    drawn: alt.VConcatChart = alt.vconcat(*panels, spacing=18).resolve_scale(
        x="independent", y="independent"
    )
    return drawn


def _panel(data: pd.DataFrame, columns: list[str], plot: _Plot, name: str) -> alt.LayerChart:
    shown = data.loc[data[plot.total].abs().nlargest(_PART_MOST_ROWS).index].sort_index()
    if len(shown) < len(data):
        name += f" (the {len(shown)} longest of {len(data):,}; the table has all)"
    own = named_parts(shown, columns, plot.y)
    own = own[own["value"] != 0]
    own = own.assign(place=own["part"].map({part: n for n, part in enumerate(plot.order)}))
    ends = _ends(shown, own, plot)
    across_all = across("value", plot.title, plot.width)
    spare = plot.width / max(1, plot.width - _TOTAL)
    low, high = min(0.0, ends["low"].min()), max(0.0, ends["high"].max())
    across_all["scale"] = alt.Scale(domain=[low, low + (high - low) * spare or 1.0], nice=False)
    rows = row_axis(shown, plot.y, plot.width + plot.labels, list(dict.fromkeys(shown[plot.y])))
    rows["axis"]["minExtent"] = rows["axis"]["maxExtent"] = plot.labels
    encoding = {"x": across_all, "y": rows} | coloured(own, "part", plot.width, plot.order)
    encoding["order"] = alt.Order(field="place", type="quantitative")
    encoding["color"]["legend"]["labelExpr"] = "replace(datum.label, /_/g, ' ')"
    encoding |= hover({plot.y: axis_title(plot.y), "part": "part", "value": plot.title})
    bars = chart_of(own).mark_bar(stroke=PAPER, strokeWidth=0.5).encode(**encoding)
    zero = chart_of(shown[[plot.y]].head(1)).mark_rule(color=QUIET).encode(x=alt.datum(0))
    texts = chart_of(ends).mark_text(align="left", dx=5, color=INK, fontSize=11)
    texts = texts.encode(x="high:Q", y=rows, text="label:N")
    layers = [bars, zero, texts]
    if (ends["low"] < 0).any():  # of the other rows, the end of the bar is the total
        ticks = chart_of(ends[ends["low"] < 0]).mark_tick(color=INK, thickness=2, size=_TICK)
        layers.append(ticks.encode(x="total:Q", y=rows))
    title = alt.TitleParams(name, fontSize=12, offset=6, frame="group")
    return layered(layers, height=alt.Step(_STEP), width=plot.width, title=title)


def _ends(shown: pd.DataFrame, own: pd.DataFrame, plot: _Plot) -> pd.DataFrame:
    """For each row its total, the text of it, and where the parts below and above zero end."""
    least = 0.005 * own["value"].abs().sum()  # less than a pixel
    high = own[own["value"] > 0].groupby(plot.y)["value"].sum()
    low = own[own["value"] < 0].groupby(plot.y)["value"].sum()
    low = low.where(low < -least, 0)
    largest = shown[plot.total].abs().max()
    decimals = max(0, _DECIMALS - math.floor(math.log10(max(largest, 1))))
    ends = shown[[plot.y, plot.total]].rename(columns={plot.total: "total"})
    return ends.assign(
        label=[f"{value:,.{decimals}f}".replace("-", "\u2212") for value in ends["total"]],
        high=ends[plot.y].map(high).fillna(0),
        low=ends[plot.y].map(low).fillna(0),
    )


def spans(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """A line from the first to the last value, with a dot at the first and ticks at the others."""
    columns, y, group = channels["x"].split(","), channels["y"], channels["color"]
    data, (title,) = in_display_units(table, columns)
    data = readable(data, group).dropna(subset=[columns[0]])
    first, *others = columns
    by_powers = is_wide(pd.concat([data[column] for column in columns]).dropna())
    names = {column: axis_title(column) for column in columns}
    title = f"{', '.join(names.values())} {title[title.rfind('(') :]}"
    encoding: dict[str, Any] = {
        "y": row_axis(data, y, width),
        "yOffset": alt.YOffset(field=field_of(group), type="nominal", sort=None),
    }
    encoding |= coloured(data, group, beside_labels(data, y, width))
    encoding |= hover({y: axis_title(y), group: axis_title(group)} | names)
    rows = chart_of(data).encode(**encoding)
    at = {column: across(column, title, width, log=by_powers) for column in columns}
    line = rows.mark_rule(strokeWidth=2).encode(x=at[first], x2=alt.X2(field=field_of(others[-1])))
    ticks = [rows.mark_tick(thickness=2, size=9).encode(x=at[column]) for column in others]
    dots = rows.mark_circle(size=70, opacity=1).encode(x=at[first])
    return layered([line, *ticks, dots], height=alt.Step(_SPAN_STEP))
