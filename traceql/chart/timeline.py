"""Timelines: what ran when, with one row per stream or rank."""

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.chart.data import axis_title, chart_of, in_display_units
from traceql.chart.encodings import across, coloured, hover, row_axis
from traceql.chart.theme import PAPER

_MOST_BARS = 1_000
_PIXELS = 1_600  # of the whole span; bars of one color that begin in one pixel are merged
_BAR_HEIGHT = 42
_SEPARABLE = 150  # bars; more than that would vanish behind their outlines


def timeline(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    start, length, y = channels["x"], channels["width"], channels["y"]
    colour = channels.get("color")
    table = table.append_column("end", pc.add(table[start], table[length]))
    data, (title,) = in_display_units(table, [start, "end"])
    data = _visible(data.dropna(subset=[start]), start, y, colour)
    encoding = {
        "x": across(start, title, width),
        "x2": alt.X2(field="end"),
        "y": row_axis(data, y, width),
    }
    encoding |= coloured(data, colour, width)
    names = {y: axis_title(y), start: title, "end": "end"}
    encoding |= hover(names | ({colour: axis_title(colour)} if colour else {}))
    bars = chart_of(data).mark_bar(stroke=PAPER, strokeWidth=0.5 if len(data) < _SEPARABLE else 0)
    moved = bars.encode(**encoding).interactive(bind_y=False)
    drawn: alt.Chart = moved.properties(height=alt.Step(_BAR_HEIGHT))
    return drawn


def _visible(data: pd.DataFrame, start: str, y: str, colour: str | None) -> pd.DataFrame:
    """Merges bars of one row and color that begin in the same pixel."""
    columns = [column for column in (y, colour) if column]
    kept = data[[*columns, start, "end"]]
    if len(kept) <= _MOST_BARS:
        return kept
    pixel = (kept["end"].max() - kept[start].min()) / _PIXELS
    keys = [(kept[start] // pixel).rename("pixel"), *(kept[column] for column in columns)]
    bars = kept.groupby(keys, dropna=False, sort=True).agg({start: "min", "end": "max"})
    return bars.reset_index().drop(columns="pixel")
