"""Line and point charts: one quantity against another."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.data import (
    COUNTED,
    Drawn,
    axis_title,
    chart_of,
    field_of,
    in_display_units,
)
from traceql.result.chart.encodings import across, coloured, hover, is_wide, sizes, upward
from traceql.result.chart.theme import CONFIG, HEIGHT, PAPER, QUIET

_MOST_POINTS = 1_000  # more than that overlap
_MOST_STEPS = 300  # of one line; more than that are narrower than the line
_AREAS = (12, 420)  # of the circles of the smallest and the largest quantity, pixels
_FEWEST = 4  # steps or layers on an axis
_CELLS = 48  # along each axis, when points are counted per cell instead


def line(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    x, y, colour = channels["x"], channels["y"], channels.get("color")
    data, titles = in_display_units(table, [x], [y])
    data = _thinned(data.dropna(subset=[x, y]), x, y, colour)
    encoding = _axes(data, channels, titles, width) | coloured(data, colour, width)
    lines = chart_of(data).mark_line(interpolate="step-after", strokeWidth=1.5)
    drawn: alt.Chart = lines.encode(**encoding).properties(height=HEIGHT)
    return drawn


def point(table: pa.Table, channels: dict[str, str], width: int) -> Drawn:
    x, y, colour = channels["x"], channels["y"], channels.get("color")
    limits = channels["limits"].split(",") if "limits" in channels else []
    by_powers = x.endswith("bytes") and (bool(limits) or is_wide(table[x].drop_null().to_pandas()))
    size = [[channels["size"]]] if "size" in channels else []
    data, titles = in_display_units(table, *([] if by_powers else [[x]]), [y], *size)
    sized = titles.pop() if size else ""
    titles = [axis_title(x), *titles][-2:]
    data = data.dropna(subset=[x, y])
    many = len(data) > _MOST_POINTS
    if many:
        data = _counted(data, x, y, colour)
    encoding = _axes(data, channels, titles, width) | coloured(data, colour, width)
    if by_powers:
        encoding["x"] = sizes(x, data[x])
    if is_wide(data[y]) or limits:
        encoding["y"] = upward(y, titles[1], HEIGHT, log=True)
    if many:
        encoding["size"] = area("rows", "rows")
    elif size:
        encoding["size"] = area(channels["size"], sized)
    points = chart_of(data).mark_circle(size=60, opacity=0.8, stroke=PAPER, strokeWidth=0.5)
    encoded: alt.Chart = points.encode(**encoding).properties(height=HEIGHT)
    if not limits:
        return encoded
    return alt.LayerChart(layer=[*limit_lines(table, limits, y), encoded])


def area(
    column: str, title: str, areas: Sequence[float] = _AREAS, values: Sequence[float] | None = None
) -> alt.Size:
    """A quantity as the area of circles; its legend is below, away from that of the colors."""
    legend = alt.Legend(
        orient="bottom",
        symbolType="circle",
        symbolFillColor=QUIET,
        symbolStrokeWidth=0,
        tickCount=3,
        values=values or alt.Undefined,
    )
    return alt.Size(
        field=field_of(column),
        type="quantitative",
        title=title,
        scale=alt.Scale(range=areas),
        legend=legend,
    )


def _axes(
    data: pd.DataFrame, channels: dict[str, str], titles: list[str], width: int
) -> dict[str, Any]:
    x, y, colour = channels["x"], channels["y"], channels.get("color")
    names = {x: titles[0], y: titles[1]} | ({colour: axis_title(colour)} if colour else {})
    axes = {"x": across(x, titles[0], width), "y": upward(y, titles[1], HEIGHT)}
    for column, axis in zip((x, y), axes.values(), strict=True):
        if column in COUNTED:
            highest = int(data[column].max())
            axis["axis"]["tickCount"] = min(axis["axis"]["tickCount"], highest or _FEWEST)
            if not highest:
                axis["scale"] = alt.Scale(domain=[0, _FEWEST])  # or zero would be in the middle
    return axes | hover(names)


def _thinned(data: pd.DataFrame, x: str, y: str, colour: str | None) -> pd.DataFrame:
    """Averages over equal spans of x if a line has more steps than can be seen."""
    longest = data.groupby(colour).size().max() if colour else len(data)
    if not longest > _MOST_STEPS:
        return data
    span = (data[x].max() - data[x].min()) / _MOST_STEPS
    keys = [data[x] // span, *([data[colour]] if colour else [])]
    return data.groupby(keys, sort=True, as_index=False).agg(
        {x: "min", y: "mean"} | ({colour: "first"} if colour else {})
    )


def _counted(data: pd.DataFrame, x: str, y: str, colour: str | None) -> pd.DataFrame:
    """One point for all rows in the same place, with their number."""
    keys = [pd.cut(data[column], _CELLS, labels=False) for column in (x, y)]
    keys += [data[colour]] if colour else []
    cells = data.assign(rows=1).groupby([key.to_numpy() for key in keys], sort=True, dropna=False)
    return cells.agg(
        {x: "mean", y: "mean", "rows": "sum"} | ({colour: "first"} if colour else {})
    ).reset_index(drop=True)


def limit_lines(table: pa.Table, columns: list[str], y: str) -> Iterator[alt.Chart]:
    """A line at the largest value of each column, which has the unit of y, with its name."""
    for column in columns:
        largest = pc.max(table[column]).as_py()
        if largest is None:
            continue
        data, (title,) = in_display_units(pa.table({y: [largest]}), [y])
        unit = title[title.rfind("(") + 1 : -1]
        data["limit"] = f"{axis_title(column)} {data[y].iloc[0]:,.0f} {unit}"
        line = chart_of(data).encode(y=alt.Y(field=field_of(y), type="quantitative"))
        yield line.mark_rule(strokeDash=[5, 4], color=QUIET)
        yield line.mark_text(
            align="left",
            baseline="bottom",
            color=QUIET,
            dx=4,
            dy=-2,
            fontSize=CONFIG["axis"]["labelFontSize"],
        ).encode(x=alt.value(0), text="limit:N")
