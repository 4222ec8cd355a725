"""What all pages have in common: one file with styles and script inside, which opens from disk."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from traceql.printable import printable
from traceql.query import Query
from traceql.report.facts import anchor
from traceql.report.sections import Section
from traceql.report.style import style
from traceql.version import __version__

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
<header><h1>{title}</h1><p>{subtitle}</p></header>
<nav aria-label="Sections">{filters}<div>{contents}</div></nav>
<main>{body}</main>
<footer>Made by {made}. Times are as they were recorded, including profiler overhead.</footer>
<script>{script}</script>
</body>
</html>
"""


def html_page(
    title: str, subtitle: str, sections: Sequence[Section], body: str, *, filters: str = ""
) -> str:
    """The page.

    Args:
        title: a text.
        subtitle: a text.
        sections: those that the table of contents lists.
        body: HTML.
        filters: HTML of what to choose rows by.
    """
    return printable(
        _TEMPLATE.format(
            title=escape(title),
            subtitle=escape(subtitle),
            style=style(),
            script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
            contents=_contents(sections),
            filters=filters,
            body=body,
            made=f"traceql {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )
    )


def _contents(sections: Sequence[Section]) -> str:
    links = [f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections]
    return "".join([*links, '<a href="#definitions">Definitions</a>'])


def section_html(section: Section, parts: Iterable[str]) -> str:
    """A section with its figures."""
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f'<p class="question">{escape(section.question)}</p>'
        f'<div class="figures">{"".join(parts)}</div></section>'
    )


def definitions(queries: Iterable[Query]) -> str:
    """What the rows and columns of each query mean."""
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
