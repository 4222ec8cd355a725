"""The frame of all pages: one file with styles and script inside, which opens from disk."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from traceql.present.report.answers import anchor
from traceql.present.report.picture import variables
from traceql.present.report.sections import Section
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
        links: titles of the parts of the page, by the identifiers of their elements.
        parts: the name of the list of links, for screen readers.
        filters: the form that selects rows.
        part: the part of the run that the numbers are of; empty for the whole.
        footer: a note on all numbers of the page.
    """
    listed = "".join(f'<a href="#{name}">{escape(text)}</a>' for name, text in links.items())
    return printable(
        _TEMPLATE.format(
            title=escape(title),
            subtitle=escape(subtitle),
            part=f'<p class="part">{escape(part)}</p>' if part else "",
            style=_style(),
            script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
            parts=escape(parts),
            contents=listed,
            filters=filters,
            body=body,
            made=f"traceql {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            footer=escape(footer),
        )
    )


def _style() -> str:
    """The style sheet, for light and dark screens."""
    sheet = (_FOLDER / "page.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{variables(dark=True)}}}}}"
    return f":root{{{variables(dark=False)}}}\n{dark}\n{sheet}"


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
