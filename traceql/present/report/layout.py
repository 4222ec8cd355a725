"""Which figures take the whole width of the page, and in which order a table has its columns."""

from collections.abc import Sequence
from itertools import groupby, takewhile

from traceql.present.report.facts import Answer
from traceql.result import Result
from traceql.result.text_table.columns import display_columns
from traceql.sql.query import Chart
from traceql.util.units import display_unit

_WIDE_CHARTS = {"deviation", "flame", "heatmap", "timeline", "waterfall"}
_CHARTS_OF_ROWS = {"bar", "parts", "range", "stacked", "timeline", "waterfall"}
_HALF, _LETTER, _PADDING = 520, 6.6, 18  # pixels: of a figure, and of a cell
_SOME = 40  # rows, by which the width of a table is estimated


def wide_ones(answers: Sequence[Answer]) -> set[str]:
    """The names of the figures that take the whole width.

    Figures of half the width stand side by side, so the last of an odd number is wide as well.
    """
    wide = set()
    for is_wide, group in groupby(answers, _is_wide):
        names = [answer.name for answer in group]
        wide.update(names if is_wide else names[len(names) // 2 * 2 :])
    return wide


def _is_wide(answer: Answer) -> bool:
    chart = answer.query.head.chart if answer.figure.drawn else None
    if chart and chart.kind in _WIDE_CHARTS:
        return True
    return (chart is None or answer.figure.unfolded) and _width(answer.result) > _HALF


def _width(result: Result) -> float:
    """The width of its table, pixels, estimated from its first rows."""
    columns = display_columns(result.head(_SOME).arrow())
    letters = (
        max([*map(len, column.cells), *map(len, column.title.replace("_", " ").split())])
        for column in columns
    )
    return sum(_LETTER * count + _PADDING for count in letters)


def columns_in_order(answer: Answer) -> list[str]:
    """What the rows are comes first, and then what the chart shows."""
    columns, chart = answer.result.columns, answer.query.head.chart
    if not chart or not answer.figure.drawn or chart.kind not in _CHARTS_OF_ROWS:
        return columns
    rows, quantities = _channels(chart, "y", "color", "group"), _channels(chart, "x", "width")
    keys = takewhile(lambda name: display_unit(name, 0) is None, columns)
    order = dict.fromkeys([*rows, *keys, *quantities, *columns])
    return [name for name in order if name in columns]


def _channels(chart: Chart, *names: str) -> list[str]:
    """The columns of some channels."""
    return [column for name in names for column in chart.channels.get(name, "").split(",")]
