"""Draws a result with the function for its kind of chart.

In notebooks, charts are still pictures, which need no network: Altair's own renderer writes a page
that loads a script from the internet. The one here draws the charts that have a mark, which they
keep when they are changed, and leaves all others to Altair's.
"""

from collections.abc import Callable
from textwrap import wrap
from typing import Any

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import QueryInvalid, TraceqlError
from traceql.result.chart.bars import bar, parts, spans, stacked
from traceql.result.chart.comparison import dumbbell, forest
from traceql.result.chart.curves import curve
from traceql.result.chart.drawing import Specified, can_be_drawn, notebook_drawing
from traceql.result.chart.encodings import Drawn, column_label, with_joined_rows, with_labels
from traceql.result.chart.front import front
from traceql.result.chart.history import history
from traceql.result.chart.line_point_heatmap import delta, deviation, heatmap, line, point
from traceql.result.chart.roofline import roofline
from traceql.result.chart.theme import CONFIG, UNKNOWN
from traceql.result.chart.timeline import flame, timeline
from traceql.result.chart.waterfall import difference, waterfall
from traceql.sql.query import Chart

_KINDS: dict[str, Callable[[pa.Table, dict[str, str], int], Drawn]] = {
    "bar": bar, "curve": curve, "delta": delta, "deviation": deviation, "difference": difference,
    "dumbbell": dumbbell, "flame": flame, "forest": forest, "front": front, "heatmap": heatmap,
    "history": history, "line": line, "parts": parts, "point": point, "range": spans,
    "roofline": roofline, "stacked": stacked, "timeline": timeline, "waterfall": waterfall,
}  # fmt: skip

TAGS = ("phase", "rank")  # columns by which the marks of a page can be chosen
_TITLE_LETTER = 8.2  # pixels
SVG = "image/svg+xml"
_NAME = "traceql"
_MARK = {"traceql": "still"}
_ALTAIRS = "default"
_Bundle = dict[str, Any]
_Renderer = Callable[..., _Bundle | tuple[_Bundle, _Bundle]]


def drawn(table: pa.Table, chart: Chart, *, width: int, tagged: bool = False) -> Drawn:
    """The chart of a result. If there are too many rows to distinguish, they are aggregated.

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
    table = with_labels(table)
    legend = (channels.get(name, "") for name in ("color", "group"))
    for column in (column for names in legend for column in names.split(",")):
        if column and pa.types.is_string(table.schema.field(column).type):
            place = table.schema.get_field_index(column)
            table = table.set_column(place, column, pc.fill_null(table[column], UNKNOWN))
    table, channels = with_joined_rows(table, channels)
    plain = _KINDS[chart.kind](table, channels, width)
    if chart.title:
        lines = wrap(chart.title, int(width / _TITLE_LETTER))
        plain = plain.properties(title=lines if len(lines) > 1 else chart.title)
    config = dict(CONFIG)
    if isinstance(plain, alt.VConcatChart):  # whose panels have their width
        panels: Drawn = plain.configure(**config)
        return panels
    fitted: Drawn = plain.properties(
        width=width, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    rows = plain.data["values"] if isinstance(plain.data, dict) else []
    if tagged and (tags := [column for column in TAGS if rows and column in rows[0]]):
        texts = (f"'{column}=' + datum.{column}" for column in tags)  # `phase=decode rank=0`
        described = fitted.transform_calculate(tags=" + ' ' + ".join(texts))
        fitted = described.encode(description=alt.Description(field="tags", type="nominal"))
        config |= {"aria": True}
    finished: Drawn = fitted.configure(**config)
    return finished


def rendered_offline(chart: Drawn) -> Drawn:
    """The chart with the mark.

    A renderer that the user has chosen, as with `alt.renderers.enable("mimetype")`, stays.
    """
    if alt.renderers.active == _ALTAIRS and (of_altair := alt.renderers.get()):
        alt.renderers.register(_NAME, _renderer(of_altair))
        alt.renderers.enable(_NAME)
    marked: Drawn = chart.properties(usermeta=_MARK)
    return marked


def _renderer(of_altair: _Renderer) -> _Renderer:
    def render(spec: dict[str, Any], **options: Any) -> _Bundle | tuple[_Bundle, _Bundle]:
        if spec.get("usermeta") != _MARK:
            return of_altair(spec, **options)
        try:
            picture = notebook_drawing().draw(Specified(spec)).decode()
        except TraceqlError as error:
            return {"text/plain": f"no picture: {error}"}
        return {SVG: picture, "text/plain": "<chart>"}

    return render
