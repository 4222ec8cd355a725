"""Whether a result can be drawn; answers without importing Altair, which takes a second."""

import pyarrow as pa

from traceql.errors import QueryInvalid
from traceql.query.head import Chart


def can_be_drawn(table: pa.Table, chart: Chart) -> bool:
    """Whether any row has a value for the chart's quantity.

    Raises:
        QueryInvalid: the chart has no quantity, or names a column that the result does not have.
    """
    channel = "color" if chart.kind == "heatmap" else "x"
    if channel not in chart.channels:
        raise QueryInvalid(f"the chart has no {channel}; correct the line @chart")
    for name in (name for names in chart.channels.values() for name in names.split(",")):
        if name not in table.column_names:
            raise QueryInvalid(f"the chart needs column '{name}'; correct the line @chart")
    columns = [table[name] for name in chart.channels[channel].split(",")]
    return any(column.null_count < len(column) for column in columns)
