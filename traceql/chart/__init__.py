"""Altair charts of query results, as their files' heads describe them.

-- @chart bar x=total_ns y=name color=category      a bar per row
-- @chart bar x=median_ns y=phase group=rank        bars of several ranks side by side
-- @chart stacked x=computing_ns,idle_ns y=rank     several columns, or one by colour, in a bar
-- @chart line x=ts y=mean_queued color=rank
-- @chart point x=ts y=dur color=cause
-- @chart heatmap x=number y=layer color=dur        a cell per row
-- @chart timeline x=gpu_ts width=gpu_dur y=rank color=phase
-- @title Where each rank's time went
"""

from collections.abc import Callable

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.chart.bars import bar, stacked
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


def can_be_drawn(table: pa.Table, chart: Chart) -> bool:
    """Whether any row has what the chart is of."""
    channel = "color" if chart.kind == "heatmap" else "x"
    columns = [table[name] for name in chart.channels[channel].split(",")]
    return any(column.null_count < len(column) for column in columns)


def _named(table: pa.Table, channels: dict[str, str]) -> pa.Table:
    """With a name for what has none in a legend."""
    for column in (channels.get("color"), channels.get("group")):
        if column and pa.types.is_string(table.schema.field(column).type):
            place = table.schema.get_field_index(column)
            table = table.set_column(place, column, pc.fill_null(table[column], "(none)"))
    return table
