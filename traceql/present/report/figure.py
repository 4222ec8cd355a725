"""One figure of the page: its chart, its table and its command, for all phases and for each."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from traceql.database.database import Database
from traceql.present.report.drawing import PageDrawing, Pictures
from traceql.present.report.facts import Answer, anchor
from traceql.present.report.layout import columns_in_order
from traceql.present.report.phases import by_phase, is_of_phases
from traceql.result import Result
from traceql.result.text_table.html import html_table

_MOST_ROWS = 200  # of a table, because a page is for reading
_MOST_ROWS_OF_PHASE = 50


@dataclass(frozen=True)
class View:
    """The rows of a figure for one phase, and the function that waits for their pictures.

    Attributes:
        phase: empty for all phases.
        command: what gives the same rows outside of the page.
    """

    phase: str
    command: str
    result: Result
    pictures: Callable[[], Pictures] | None


@dataclass(frozen=True)
class Drawn:
    """A figure whose charts are being drawn."""

    answer: Answer
    wide: bool
    views: tuple[View, ...]


def begun(
    trace: Database, answer: Answer, phases: list[str], drawing: PageDrawing, *, wide: bool
) -> Drawn:
    """Begins to draw a figure."""

    def view(phase: str, asked: dict[str, str], result: Result) -> View:
        name = f"{answer.anchor}-{phase}" if phase else answer.anchor
        command = answer.command(trace.command_argument, asked)
        return View(phase, command, result, drawing.ask(answer, result, name=name, wide=wide))

    views = [view("", {}, answer.result)]
    views += [view(*of_phase) for of_phase in by_phase(trace, answer, phases)]
    return Drawn(answer, wide, tuple(views))


def figure(drawn: Drawn) -> str:
    """The figure with its views, of which all but the first are hidden."""
    answer = drawn.answer
    definition = anchor(answer.query.name)
    chart = answer.query.head.chart
    kind = f' data-chart="{chart.kind}"' if chart else ""
    sums = ' class="of-phases"' if is_of_phases(answer) else ""
    return (
        f'<figure id="{answer.anchor}"{" data-wide" if drawn.wide else ""}{kind}{sums}>'
        f"<figcaption><h3>{escape(answer.title)}</h3>"
        f'<a href="#define-{definition}" title="What the columns mean">definition</a></figcaption>'
        f"{''.join(_view(answer, view) for view in drawn.views)}</figure>"
    )


def _view(answer: Answer, view: View) -> str:
    pictures = view.pictures() if view.pictures else None
    drawing = ""
    if pictures and pictures.missing:
        drawing = f'<p class="none">No picture: {escape(pictures.missing)}.</p>'
    elif pictures:
        drawing = "".join(
            f'<div class="{size}">{picture}</div>' for size, picture in pictures.drawn.items()
        )
    is_drawn = bool(pictures and not pictures.missing)
    table = _table(answer, view, folded=is_drawn and not answer.figure.unfolded)
    chosen = f' data-phase="{view.phase}" hidden' if view.phase else ""
    return f'<div class="view"{chosen}>{drawing}{table}<code>{escape(view.command)}</code></div>'


def _table(answer: Answer, view: View, *, folded: bool) -> str:
    rows = len(view.result)
    most = _MOST_ROWS_OF_PHASE if view.phase else _MOST_ROWS
    texts = {column.name: column.text for column in answer.query.head.columns}
    shown = view.result.head(most).select(columns_in_order(answer))
    table = html_table(shown.arrow(), texts=texts)
    if rows > most:
        table += f'<p class="more">First {most} of {rows:,} rows.</p>'
    region = f'role="region" aria-label="{escape(answer.title)}"'
    scrolled = f'<div class="scroll" tabindex="0" {region}>{table}</div>'
    if not folded:
        return scrolled
    counted = f"{rows:,} row{'' if rows == 1 else 's'}"
    return f"<details><summary>{counted}</summary>{scrolled}</details>"
