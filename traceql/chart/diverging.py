"""Stacked bars on both sides of zero: parts that add up to a total, some of which are negative."""

import altair as alt
import pyarrow as pa

from traceql.chart.bars import named_parts, part_name
from traceql.chart.data import axis_title, chart_of, in_display_units
from traceql.chart.encodings import across, beside_labels, coloured, hover, row_axis
from traceql.chart.theme import INK, PAPER, QUIET, ROW_HEIGHT

_MOST_ROWS = 30
_TICK = 18  # pixels


def diverging(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """Positive parts go right from zero and negative ones left; a line marks their sum."""
    columns, y, total = channels["x"].split(","), channels["y"], channels["total"]
    data, (title,) = in_display_units(table, [*columns, total])
    largest = data[total].abs().nlargest(_MOST_ROWS).index
    data = data[data.index.isin(largest) | (len(data) <= _MOST_ROWS)]
    rows = list(dict.fromkeys(data[y]))
    parts = named_parts(data, columns, y)
    parts = parts[parts["value"] != 0]
    order = [name for name in map(part_name, columns) if name in set(parts["part"])]
    parts = parts.assign(place=parts["part"].map(order.index))
    title = f"time ({title.rpartition('(')[2]}"
    at = {"x": across("value", title, width), "y": row_axis(data, y, width, rows)}
    encoding = at | coloured(parts, "part", beside_labels(data, y, width), order)
    encoding["order"] = alt.Order(field="place", type="quantitative")
    encoding["color"]["legend"]["labelExpr"] = "replace(datum.label, /_/g, ' ')"
    encoding |= hover({y: axis_title(y), "part": "part", "value": title})
    bars = chart_of(parts).mark_bar(stroke=PAPER, strokeWidth=0.5).encode(**encoding)
    zero = chart_of(data[[y]].head(1)).mark_rule(color=QUIET).encode(x=alt.datum(0))
    sums = data[[y, total]].rename(columns={total: "value"})
    ticks = chart_of(sums).mark_tick(color=INK, thickness=2.5, size=_TICK)
    ticks = ticks.encode(**at, **hover({y: axis_title(y), "value": axis_title(total)}))
    drawn: alt.LayerChart = alt.LayerChart(layer=[bars, zero, ticks]).properties(
        height=alt.Step(ROW_HEIGHT + 6)
    )
    return drawn
