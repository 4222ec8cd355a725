"""Whether a result can be drawn; answers without importing Altair, which takes a second."""

import pyarrow as pa

from traceql.errors import QueryInvalid
from traceql.sql.query import Chart

_QUANTITIES = {  # channels; of other kinds of chart, x
    "curve": ("x", "y"),
    "delta": ("color",),
    "deviation": ("color",),
    "front": ("x", "y"),
    "heatmap": ("color",),
    "history": ("y",),
    "line": ("x", "y"),
    "point": ("x", "y"),
    "roofline": ("x", "y", "size"),
}


def can_be_drawn(table: pa.Table, chart: Chart) -> bool:
    """Whether there are values for the chart's quantities.

    Raises:
        QueryInvalid: the chart lacks a quantity, or names a column that the result does not have.
    """
    quantities = _QUANTITIES.get(chart.kind, ("x",))
    for channel in quantities:
        if channel not in chart.channels:
            raise QueryInvalid(f"the chart has no {channel}; correct the line @chart")
    for name in (name for names in chart.channels.values() for name in names.split(",")):
        if name not in table.column_names:
            raise QueryInvalid(f"the chart needs column '{name}'; correct the line @chart")
    return all(_has_values(table, chart.channels[channel]) for channel in quantities)


def _has_values(table: pa.Table, columns: str) -> bool:
    return any(table[name].null_count < len(table) for name in columns.split(","))
