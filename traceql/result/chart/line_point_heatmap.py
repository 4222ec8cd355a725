"""Lines, points and heatmaps: one quantity against another, or over two."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.encodings import (
    COUNTED,
    Drawn,
    across,
    axis_title,
    chart_of,
    coloured,
    field_of,
    gradient,
    hover,
    in_display_units,
    is_wide,
    sizes,
    upward,
)
from traceql.result.chart.theme import DIVERGING, HEIGHT, LABEL_SIZE, PAPER, QUIET

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
        orient="bottom", symbolType="circle", symbolFillColor=QUIET, symbolStrokeWidth=0,
        tickCount=3, values=values or alt.Undefined,
    )  # fmt: skip
    about: dict[str, Any] = {"field": field_of(column), "type": "quantitative", "title": title}
    return alt.Size(**about, scale=alt.Scale(range=areas), legend=legend)


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
        text = line.mark_text(
            align="left", baseline="bottom", color=QUIET, dx=4, dy=-2, fontSize=LABEL_SIZE
        )
        yield text.encode(x=alt.value(0), text="limit:N")


_COLUMN = 6  # pixels per column of cells, including its share of the axis
_TOUCHING = alt.RelativeBandSize(band=1.04)  # otherwise the background shows between cells
_OF_100 = alt.Scale(domain=[0, 100], scheme="viridis", clamp=True)
_CELL_HEIGHT, _LOWEST, _HIGHEST = 20, 160, 420  # pixels
_NOISE = 0.05  # of the largest median: the scale is at least so wide, and small differences pale
_MOST = 0.98  # of the differences are within the scale
_LEAST = "least difference"


def heatmap(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    x, y, colour = channels["x"], channels["y"], channels["color"]
    data, (title,) = in_display_units(table, [colour])
    if colour.endswith("_pct"):
        data = data.dropna(subset=[x, y, colour])
        means = data.groupby([x, y], as_index=False, sort=False).agg({colour: "mean"})
        return cells(means, channels, width, title, _OF_100)
    data = data.dropna(subset=[x, y])
    by_powers = is_wide(data[colour])  # before merging: not by width
    scale = alt.Scale(scheme="viridis", type="log" if by_powers else "linear")
    return cells(data, channels, width, title, scale)


def cells(
    data: pd.DataFrame, channels: dict[str, str], width: int, title: str, scale: alt.Scale
) -> alt.Chart:
    """A cell for each pair of values, colored by `scale`; `title` is that of its legend."""
    x, y, colour = channels["x"], channels["y"], channels["color"]
    data, merged = _merged(data, x, y, colour, width // _COLUMN)
    x_title = axis_title(x) + (f", mean of {merged}" if merged > 1 else "")
    axis = alt.Axis(labelOverlap=True, labelSeparation=5, labelAngle=0, grid=False, domain=False)
    legend = gradient(data, y, width, title)
    order = "ascending" if pd.api.types.is_numeric_dtype(data[y]) else None
    encoding = {
        "x": alt.X(field=field_of(x), type="ordinal", title=x_title, axis=axis),
        "y": alt.Y(field=field_of(y), type="ordinal", title=axis_title(y), axis=axis, sort=order),
        "color": alt.Color(field=field_of(colour), type="quantitative", scale=scale, legend=legend),
    } | hover({x: x_title, y: axis_title(y), colour: title})
    height = min(max(_CELL_HEIGHT * data[y].nunique(), _LOWEST), _HIGHEST)
    rects = chart_of(data).mark_rect(width=_TOUCHING, height=_TOUCHING)
    drawn: alt.Chart = rects.encode(**encoding).properties(height=height)
    return drawn


def _merged(data: pd.DataFrame, x: str, y: str, colour: str, most: int) -> tuple[pd.DataFrame, int]:
    """One row per visible cell: neighboring numbers of x share a cell, which shows their mean."""
    data = data.groupby([x, y], as_index=False, sort=False).agg({colour: "sum"})
    columns = data[x].nunique()
    width = -(-columns // most) if pd.api.types.is_numeric_dtype(data[x]) else 1
    across = data[x] // width * width if width > 1 else data[x]
    cells = data.assign(**{x: across}).groupby([x, y], as_index=False, sort=False)
    return cells.agg({colour: "mean"}), width


def deviation(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    x, y, colour = channels["x"], channels["y"], channels["color"]
    rows: pd.DataFrame = table.select([x, y, colour]).to_pandas().dropna(subset=[x, y])
    summed = rows.groupby([x, y], as_index=False, sort=False).agg({colour: "sum"})
    medians = summed.groupby(y)[colour].transform("median")
    summed[colour] -= medians
    return _diverging(summed, medians.max(), channels, width, f"- median {x}")


def delta(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    """Cells that are longer or shorter on the one side than on the other.

    The channel `of` is the value of base: changes of less than the noise of it are pale.
    """
    x, y, colour, of = (channels[name] for name in ("x", "y", "color", "of"))
    rows: pd.DataFrame = table.select([x, y, colour, of]).to_pandas().dropna(subset=[x, y, colour])
    largest = rows.groupby(y)[of].transform("median").max()
    return _diverging(rows, largest, channels, width, "")


def _diverging(
    rows: pd.DataFrame, largest: float, channels: dict[str, str], width: int, less: str
) -> alt.Chart:
    """Cells of differences, of which those near 0 are pale.

    Args:
        largest: median.
        less: what the quantity is less, in its title; by default it is that of new less base.
    """
    colour = channels["color"]
    table = pa.Table.from_pandas(rows.assign(**{_LEAST: _NOISE * largest}), preserve_index=False)
    data, (title,) = in_display_units(table, [colour, _LEAST])
    furthest = max(data[colour].abs().quantile(_MOST), data[_LEAST].max()) or 1.0
    scale = alt.Scale(domain=[-furthest, 0, furthest], range=DIVERGING, clamp=True)
    unit = title[title.rfind("(") :]
    title = title.replace(" (", f" {less} (") if less else f"new \u2212 base {unit}"
    return cells(data, channels, width, title, scale)
