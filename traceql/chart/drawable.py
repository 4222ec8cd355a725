"""Whether there is anything to draw; told without what draws, which takes a second to import."""

import pyarrow as pa

from traceql.query.head import Chart


def can_be_drawn(table: pa.Table, chart: Chart) -> bool:
    """Whether any row has what the chart is of."""
    channel = "color" if chart.kind == "heatmap" else "x"
    columns = [table[name] for name in chart.channels[channel].split(",")]
    return any(column.null_count < len(column) for column in columns)
