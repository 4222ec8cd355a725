"""The HTML of a page: its frame, sections and figures."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from traceql.database.database import Database
from traceql.present.report.answers import Answer, anchor, by_phase, has_phases, ordered_columns
from traceql.present.report.charts import PageCharts, Pictures, variables
from traceql.present.report.sections import Section
from traceql.result import Result
from traceql.result.text_table.export import html_table
from traceql.sql.query import Query
from traceql.util.resources import __version__
from traceql.util.text import printable
from traceql.util.units import display_unit

_FOLDER = Path(__file__).parent
_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><p>{subtitle}</p>{part}</header>
<nav aria-label="{parts}">{filters}<div>{contents}</div></nav>
<main>{body}</main>
<footer>Made by {made}. {footer}</footer>
<script>{script}</script>
</body>
</html>
"""


def html_page(
    title: str,
    subtitle: str,
    links: Mapping[str, str],
    body: str,
    *,
    parts: str = "Sections",
    filters: str = "",
    part: str = "",
    footer: str = "Times are as they were recorded, including profiler overhead.",
) -> str:
    """The page; all texts but `body` and `filters`, which are HTML, are escaped.

    Args:
        part: the part of the run that the numbers are of; empty for the whole.
    """
    sheet = (_FOLDER / "page.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{variables(dark=True)}}}}}"
    listed = "".join(f'<a href="#{name}">{escape(text)}</a>' for name, text in links.items())
    return printable(
        _TEMPLATE.format(
            title=escape(title),
            subtitle=escape(subtitle),
            part=f'<p class="part">{escape(part)}</p>' if part else "",
            style=f":root{{{variables(dark=False)}}}\n{dark}\n{sheet}",
            script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
            parts=escape(parts),
            contents=listed,
            filters=filters,
            body=body,
            made=f"traceql {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            footer=escape(footer),
        )
    )


def section_links(sections: Iterable[Section]) -> dict[str, str]:
    """The links to these sections, and to the definitions after them."""
    return {**{one.name: one.title for one in sections}, "definitions": "Definitions"}


def section_html(section: Section, parts: Iterable[str]) -> str:
    """A section with its figures."""
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f'<p class="question">{escape(section.question)}</p>'
        f'<div class="figures">{"".join(parts)}</div></section>'
    )


def definitions_html(queries: Iterable[Query]) -> str:
    """The meaning of the rows and columns of each query."""
    entries = []
    for query in sorted(queries, key=lambda query: query.name):
        columns = "".join(
            f"<dt>{escape(column.name)}</dt><dd>{escape(column.text)}</dd>"
            for column in query.head.columns
        )
        entries.append(
            f'<details id="define-{anchor(query.name)}"><summary><b>{escape(query.name)}</b> '
            f"{escape(query.head.summary)}</summary><p>{escape(query.head.text)}</p>"
            f"<dl>{columns}</dl></details>"
        )
    return (
        '<section id="definitions"><h2>Definitions</h2>'
        '<p class="question">The meaning of the rows and columns of each figure.</p>'
        f'<div class="definitions">{"".join(entries)}</div></section>'
    )


def tiles_html(tiles: Iterable[tuple[str, str, str, str]]) -> str:
    """The numbers that sum up a page.

    Args:
        tiles: HTML of the name of each number, its value and a note, and the note's class or "".
    """
    items = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd>"
        + (f'<dd class="{tone}">{note}</dd></div>' if tone else f"<dd>{note}</dd></div>")
        for name, value, note, tone in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def format_value(value: float, unit: str) -> str:
    """A number with its unit as HTML."""
    if unit == "ns":
        shown = display_unit("dur", value)
        if shown:
            return f"{value / shown.divisor:,.2f} <small>{shown.symbol}</small>"
    if unit == "percent":
        return f"{value:.1f} <small>%</small>"
    return f"{value:,.0f} <small>{escape(unit)}</small>"


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
    database: Database, answer: Answer, phases: list[str], charts: PageCharts, *, wide: bool
) -> PendingFigure:
    """Begins to draw a figure."""

    def view(phase: str, selection: dict[str, str], result: Result) -> View:
        name = f"{answer.anchor}-{phase}" if phase else answer.anchor
        command = answer.command(database.command_argument, selection)
        return View(phase, command, result, charts.begin(answer, result, name=name, wide=wide))

    views = [view("", {}, answer.result)]
    views += [view(*of_phase) for of_phase in by_phase(database, answer, phases)]
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
