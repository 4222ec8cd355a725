"""Whether a result can be drawn; answers without importing Altair, which takes a second."""

import pyarrow as pa

from traceql.query.head import Chart


def can_be_drawn(table: pa.Table, chart: Chart) -> bool:
    """Whether any row has a value for the chart's quantity."""
    channel = "color" if chart.kind == "heatmap" else "x"
    columns = [table[name] for name in chart.channels[channel].split(",")]
    return any(column.null_count < len(column) for column in columns)
