"""A chart of a result, by its kind."""

from collections.abc import Callable

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.chart.bars import bar, stacked
from traceql.chart.drawable import can_be_drawn
from traceql.chart.heatmap import heatmap
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
    """The chart of a result; many rows are aggregated until they can be told apart.

    Args:
        width: of the whole picture, axes and labels included, pixels.

    Raises:
        QueryInvalid: no such kind of chart, or nothing to draw.
    """
    if chart.kind not in _KINDS:
        raise QueryInvalid(f"no chart '{chart.kind}' (there are {', '.join(_KINDS)})")
    if not can_be_drawn(table, chart):
        raise QueryInvalid("there is nothing to draw: no rows, or only empty ones")
    plain = _KINDS[chart.kind](_named(table, chart.channels), chart.channels, width)
    if chart.title:
        plain = plain.properties(title=chart.title)
    fitted = plain.properties(
        width=width, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    finished: alt.Chart = fitted.configure(**CONFIG)
    return finished


def _named(table: pa.Table, channels: dict[str, str]) -> pa.Table:
    """With a name for what has none in a legend."""
    for column in (channels.get("color"), channels.get("group")):
        if column and pa.types.is_string(table.schema.field(column).type):
            place = table.schema.get_field_index(column)
            table = table.set_column(place, column, pc.fill_null(table[column], "(none)"))
    return table
