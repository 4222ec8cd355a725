"""A result as a notebook shows it: its chart, and its first rows."""

from traceql.result import Result
from traceql.table.html import html_table

_ROWS, _WIDTH = 12, 640


def html(result: Result) -> str:
    if not len(result):
        return "<p>no rows</p>"
    table = f'<div style="overflow-x:auto">{html_table(result.head(_ROWS))}</div>'
    more = len(result) - _ROWS
    if more > 0:
        table += f"<p>and {more:,} more rows; <code>.df()</code> has all</p>"
    return f"<div>{_picture(result)}{table}</div>"


def _picture(result: Result) -> str:
    if not result.can_be_drawn:
        return ""
    from traceql.chart.files import svg

    return svg(result.chart(width=_WIDTH))
