"""Deviations: how far each cell of a heatmap is from the median cell of its row, or from base."""

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.data import in_display_units
from traceql.result.chart.heatmap import cells
from traceql.result.chart.palette import DIVERGING

_NOISE = 0.05  # of the largest median: the scale is at least so wide, and small differences pale
_MOST = 0.98  # of the differences are within the scale
_LEAST = "least difference"


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
