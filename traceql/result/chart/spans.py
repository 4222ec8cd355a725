"""Ranges: of each row several values of one quantity, such as the percentiles of a latency."""

from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.data import axis_title, chart_of, field_of, in_display_units, readable
from traceql.result.chart.encodings import across, beside_labels, coloured, hover, is_wide, row_axis

_STEP = 18  # pixels of a row


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
    drawn: alt.LayerChart = alt.LayerChart(layer=[line, *ticks, dots]).properties(
        height=alt.Step(_STEP)
    )
    return drawn
