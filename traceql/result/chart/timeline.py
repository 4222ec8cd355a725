"""Timelines: what ran when, with one row per rank, stream or role."""

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.data import axis_title, chart_of, in_display_units
from traceql.result.chart.encodings import across, beside_labels, coloured, hover, row_axis
from traceql.result.chart.theme import PAPER

_MOST_BARS = 1_000
_PIXELS = 1_600  # of the whole span; bars of one color that begin in one pixel are merged
_BAR_HEIGHT, _THIN = 42, 18  # pixels; many rows are thin
_FEW = 8  # rows
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
    encoding |= coloured(data, colour, beside_labels(data, y, width))
    if colour == y:
        encoding["color"].legend = None
        encoding["stroke"] = encoding["color"]  # a kernel of a microsecond is seen by its outline
    names = {y: axis_title(y), start: title, "end": "end"}
    encoding |= hover(names | ({colour: axis_title(colour)} if colour else {}))
    outline = 0.8 if colour == y else 0.5 if len(data) < _SEPARABLE else 0
    bars = chart_of(data).mark_bar(stroke=PAPER, strokeWidth=outline)
    moved = bars.encode(**encoding).interactive(bind_y=False)
    height = _BAR_HEIGHT if data[y].nunique() <= _FEW else _THIN
    drawn: alt.Chart = moved.properties(height=alt.Step(height))
    return drawn


def _visible(data: pd.DataFrame, start: str, y: str, colour: str | None) -> pd.DataFrame:
    """Merges bars of one row and color that begin in the same pixel."""
    columns = list(dict.fromkeys(column for column in (y, colour) if column))
    kept = data[[*columns, start, "end"]]
    if len(kept) <= _MOST_BARS:
        return kept
    pixel = (kept["end"].max() - kept[start].min()) / _PIXELS
    keys = [(kept[start] // pixel).rename("pixel"), *(kept[column] for column in columns)]
    bars = kept.groupby(keys, dropna=False, sort=True).agg({start: "min", "end": "max"})
    return bars.reset_index().drop(columns="pixel")
