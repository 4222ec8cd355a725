"""Draws a result with the function for its kind of chart."""

from collections.abc import Callable

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.chart.bars import bar, stacked
from traceql.chart.drawable import can_be_drawn
from traceql.chart.heatmap import heatmap
from traceql.chart.labels import column_label, with_labels
from traceql.chart.plane import line, point
from traceql.chart.theme import CONFIG
from traceql.chart.timeline import timeline
from traceql.errors import QueryInvalid
from traceql.query.head import Chart

_KINDS: dict[str, Callable[[pa.Table, dict[str, str], int], alt.Chart]] = {
    "bar": bar,
    "heatmap": heatmap,
    "line": line,
    "point": point,
    "stacked": stacked,
    "timeline": timeline,
}


def drawn(table: pa.Table, chart: Chart, *, width: int) -> alt.Chart:
    """The chart of a result. If there are too many rows to tell apart, they are aggregated.

    Args:
        width: of the whole picture with axes and labels, pixels.

    Raises:
        QueryInvalid: no such kind of chart, or nothing to draw.
    """
    if chart.kind not in _KINDS:
        raise QueryInvalid(f"no kind of chart '{chart.kind}'; use one of {', '.join(_KINDS)}")
    if not can_be_drawn(table, chart):
        raise QueryInvalid("there is nothing to draw: no rows, or only NULLs")
    channels = {name: column_label(columns) for name, columns in chart.channels.items()}
    plain = _KINDS[chart.kind](_named(with_labels(table), channels), channels, width)
    if chart.title:
        plain = plain.properties(title=chart.title)
    fitted = plain.properties(
        width=width, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    finished: alt.Chart = fitted.configure(**CONFIG)
    return finished


def _named(table: pa.Table, channels: dict[str, str]) -> pa.Table:
    """Replaces NULL by "(none)" in the columns that the legend shows."""
    for column in (channels.get("color"), channels.get("group")):
        if column and pa.types.is_string(table.schema.field(column).type):
            place = table.schema.get_field_index(column)
            table = table.set_column(place, column, pc.fill_null(table[column], "(none)"))
    return table
