"""Draws a result with the function for its kind of chart."""

from collections.abc import Callable
from textwrap import wrap

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import QueryInvalid
from traceql.result.chart.bars import bar, stacked
from traceql.result.chart.curves import curve
from traceql.result.chart.data import Drawn
from traceql.result.chart.deviation import delta, deviation
from traceql.result.chart.difference import difference
from traceql.result.chart.drawable import can_be_drawn
from traceql.result.chart.dumbbell import dumbbell
from traceql.result.chart.flame import flame
from traceql.result.chart.forest import forest
from traceql.result.chart.front import front
from traceql.result.chart.heatmap import heatmap
from traceql.result.chart.history import history
from traceql.result.chart.labels import column_label, with_joined_rows, with_labels
from traceql.result.chart.palette import UNKNOWN
from traceql.result.chart.parts import parts
from traceql.result.chart.plane import line, point
from traceql.result.chart.roofline import roofline
from traceql.result.chart.spans import spans
from traceql.result.chart.theme import CONFIG
from traceql.result.chart.timeline import timeline
from traceql.result.chart.waterfall import waterfall
from traceql.sql.query import Chart

_KINDS: dict[str, Callable[[pa.Table, dict[str, str], int], Drawn]] = {
    "bar": bar,
    "curve": curve,
    "delta": delta,
    "deviation": deviation,
    "difference": difference,
    "dumbbell": dumbbell,
    "flame": flame,
    "forest": forest,
    "front": front,
    "heatmap": heatmap,
    "history": history,
    "line": line,
    "parts": parts,
    "point": point,
    "range": spans,
    "roofline": roofline,
    "stacked": stacked,
    "timeline": timeline,
    "waterfall": waterfall,
}

TAGS = ("phase", "rank")  # columns by which the marks of a page can be chosen
_TITLE_LETTER = 8.2  # pixels


def drawn(table: pa.Table, chart: Chart, *, width: int, tagged: bool = False) -> Drawn:
    """The chart of a result. If there are too many rows to tell apart, they are aggregated.

    Args:
        width: of the whole picture with axes and labels, pixels.
        tagged: whether the marks of one rank or phase say so in their `aria-label`.

    Raises:
        QueryInvalid: no such kind of chart, or nothing to draw.
    """
    if chart.kind not in _KINDS:
        raise QueryInvalid(f"no kind of chart '{chart.kind}'; use one of {', '.join(_KINDS)}")
    if not can_be_drawn(table, chart):
        raise QueryInvalid("there is nothing to draw: no rows, or only NULLs")
    channels = {name: column_label(columns) for name, columns in chart.channels.items()}
    table, channels = with_joined_rows(_named(with_labels(table), channels), channels)
    plain = _KINDS[chart.kind](table, channels, width)
    if chart.title:
        lines = wrap(chart.title, int(width / _TITLE_LETTER))
        plain = plain.properties(title=lines if len(lines) > 1 else chart.title)
    config = CONFIG
    if isinstance(plain, alt.VConcatChart):  # whose panels have their width
        panels: Drawn = plain.configure(**config)
        return panels
    fitted: Drawn = plain.properties(
        width=width, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    if tagged and (tags := _tags(plain)):
        fitted, config = _with_tags(fitted, tags), config | {"aria": True}
    finished: Drawn = fitted.configure(**config)
    return finished


def _tags(chart: Drawn) -> list[str]:
    """The columns by which the marks can be chosen."""
    rows = chart.data["values"] if isinstance(chart.data, dict) else []
    return [column for column in TAGS if rows and column in rows[0]]


def _with_tags(chart: Drawn, columns: list[str]) -> Drawn:
    """Describes each mark: `phase=decode rank=0`."""
    texts = (f"'{column}=' + datum.{column}" for column in columns)
    tagged: Drawn = chart.transform_calculate(tags=" + ' ' + ".join(texts)).encode(
        description=alt.Description(field="tags", type="nominal")
    )
    return tagged


def _named(table: pa.Table, channels: dict[str, str]) -> pa.Table:
    """Calls NULL unknown in the columns that the legend shows."""
    names = (channels.get(one, "") for one in ("color", "group"))
    for column in (column for name in names for column in name.split(",")):
        if column and pa.types.is_string(table.schema.field(column).type):
            place = table.schema.get_field_index(column)
            table = table.set_column(place, column, pc.fill_null(table[column], UNKNOWN))
    return table
