"""Heatmaps: one quantity for each pair of values, or how far it is from a median or from base."""

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.data import axis_title, chart_of, field_of, in_display_units
from traceql.result.chart.encodings import gradient, hover, is_wide
from traceql.result.chart.theme import DIVERGING

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
    encoding = {
        "x": alt.X(field=field_of(x), type="ordinal", title=x_title, axis=axis),
        "y": alt.Y(
            field=field_of(y), type="ordinal", title=axis_title(y), axis=axis, sort=_order(data, y)
        ),
        "color": alt.Color(field=field_of(colour), type="quantitative", scale=scale, legend=legend),
    } | hover({x: x_title, y: axis_title(y), colour: title})
    height = min(max(_CELL_HEIGHT * data[y].nunique(), _LOWEST), _HIGHEST)
    drawn: alt.Chart = (
        chart_of(data)
        .mark_rect(width=_TOUCHING, height=_TOUCHING)
        .encode(**encoding)
        .properties(height=height)
    )
    return drawn


def _merged(data: pd.DataFrame, x: str, y: str, colour: str, most: int) -> tuple[pd.DataFrame, int]:
    """One row per visible cell: neighboring numbers of x share a cell, which shows their mean."""
    data = data.groupby([x, y], as_index=False, sort=False).agg({colour: "sum"})
    columns = data[x].nunique()
    width = -(-columns // most) if pd.api.types.is_numeric_dtype(data[x]) else 1
    across = data[x] // width * width if width > 1 else data[x]
    cells = data.assign(**{x: across}).groupby([x, y], as_index=False, sort=False)
    return cells.agg({colour: "mean"}), width


def _order(data: pd.DataFrame, y: str) -> str | None:
    return "ascending" if pd.api.types.is_numeric_dtype(data[y]) else None


def deviation(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    x, y, colour = channels["x"], channels["y"], channels["color"]
    data, (title,) = in_display_units(_differences(table, x, y, colour), [colour, _LEAST])
    furthest = max(data[colour].abs().quantile(_MOST), data[_LEAST].max())
    scale = alt.Scale(domain=[-furthest, 0, furthest], range=DIVERGING, clamp=True)
    title = title.replace(" (", f" - median {x} (")
    return cells(data, channels, width, title, scale)


def delta(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    """Cells that are longer or shorter on the one side than on the other.

    The channel `of` is the value of base: changes of less than the noise of it are pale.
    """
    x, y, colour, of = (channels[name] for name in ("x", "y", "color", "of"))
    rows: pd.DataFrame = table.select([x, y, colour, of]).to_pandas().dropna(subset=[x, y, colour])
    rows[_LEAST] = _NOISE * rows.groupby(y)[of].transform("median").max()
    data, (title,) = in_display_units(pa.Table.from_pandas(rows), [colour, _LEAST])
    furthest = max(data[colour].abs().quantile(_MOST), data[_LEAST].max()) or 1.0
    scale = alt.Scale(domain=[-furthest, 0, furthest], range=DIVERGING, clamp=True)
    title = f"new \u2212 base {title[title.rfind('(') :]}"
    return cells(data, channels, width, title, scale)


def _differences(table: pa.Table, x: str, y: str, colour: str) -> pa.Table:
    """One row per cell, with its difference from the median of its row."""
    rows: pd.DataFrame = table.select([x, y, colour]).to_pandas().dropna(subset=[x, y])
    summed = rows.groupby([x, y], as_index=False, sort=False).agg({colour: "sum"})
    medians = summed.groupby(y)[colour].transform("median")
    summed[colour] -= medians
    summed[_LEAST] = _NOISE * medians.max()
    return pa.Table.from_pandas(summed, preserve_index=False)
