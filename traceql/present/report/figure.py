"""A figure of a page: its chart, its table and its command, for all phases and for each."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from traceql.database.database import Database
from traceql.present.report.answers import Answer, anchor, by_phase, has_phases, ordered_columns
from traceql.present.report.charts import PageCharts, Pictures
from traceql.result import Result
from traceql.result.text_table.html import html_table

_MAX_ROWS = 200  # of a table, because a page is for reading
_MAX_ROWS_OF_PHASE = 50


@dataclass(frozen=True)
class View:
    """The rows of a figure for one phase, and the function that waits for their pictures.

    Attributes:
        phase: empty for all phases.
        command: how to get the same rows elsewhere.
    """

    phase: str
    command: str
    result: Result
    pictures: Callable[[], Pictures] | None


@dataclass(frozen=True)
class PendingFigure:
    """A figure whose charts are being drawn."""

    answer: Answer
    wide: bool
    views: tuple[View, ...]


def begin_figure(
    trace: Database, answer: Answer, phases: list[str], charts: PageCharts, *, wide: bool
) -> PendingFigure:
    """Begins to draw a figure."""

    def view(phase: str, selection: dict[str, str], result: Result) -> View:
        name = f"{answer.anchor}-{phase}" if phase else answer.anchor
        command = answer.command(trace.command_argument, selection)
        return View(phase, command, result, charts.begin(answer, result, name=name, wide=wide))

    views = [view("", {}, answer.result)]
    views += [view(*of_phase) for of_phase in by_phase(trace, answer, phases)]
    return PendingFigure(answer, wide, tuple(views))


def figure_html(pending: PendingFigure) -> str:
    """The figure with its views, of which all but the first are hidden."""
    answer = pending.answer
    definition = anchor(answer.query.name)
    chart = answer.query.head.chart
    kind = f' data-chart="{chart.kind}"' if chart else ""
    sums = ' class="of-phases"' if has_phases(answer) else ""
    return (
        f'<figure id="{answer.anchor}"{" data-wide" if pending.wide else ""}{kind}{sums}>'
        f"<figcaption><h3>{escape(answer.title)}</h3>"
        f'<a href="#define-{definition}" title="What the columns mean">definition</a></figcaption>'
        f"{''.join(_view(answer, view) for view in pending.views)}</figure>"
    )


def _view(answer: Answer, view: View) -> str:
    pictures = view.pictures() if view.pictures else None
    is_drawn = bool(pictures and not pictures.missing)
    rows = len(view.result)
    max_rows = _MAX_ROWS_OF_PHASE if view.phase else _MAX_ROWS
    texts = {column.name: column.text for column in answer.query.head.columns}
    shown = view.result.head(max_rows).select(ordered_columns(answer))
    table = html_table(shown.arrow(), texts=texts)
    if rows > max_rows:
        table += f'<p class="more">First {max_rows} of {rows:,} rows.</p>'
    table = scrolled(table, answer.title)
    if is_drawn and not answer.figure.unfolded:
        table = folded(table, f"{rows:,} row{'' if rows == 1 else 's'}")
    hidden = f' data-phase="{view.phase}" hidden' if view.phase else ""
    command = f"<code>{escape(view.command)}</code>"
    return f'<div class="view"{hidden}>{pictures.html if pictures else ""}{table}{command}</div>'


def scrolled(table: str, title: str) -> str:
    region = f'role="region" aria-label="{escape(title)}"'
    return f'<div class="scroll" tabindex="0" {region}>{table}</div>'


def folded(table: str, summary: str) -> str:
    return f"<details><summary>{summary}</summary>{table}</details>"
