"""The report as one self-contained page that opens from disk."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path

from traceql.printable import printable
from traceql.report.drawing import PageDrawing
from traceql.report.facts import Answer, anchor, answers
from traceql.report.figure import Drawn, begun, figure
from traceql.report.findings import findings, headlines
from traceql.report.layout import wide_ones
from traceql.report.phases import phases_of
from traceql.report.picture import variables
from traceql.report.sections import Section
from traceql.trace import Trace
from traceql.version import __version__

_FOLDER = Path(__file__).parent


def page(trace: Trace) -> str:
    """The HTML with styles, pictures and the script that sorts and filters rows inside."""
    phases = phases_of(trace)
    found: list[Answer] = []
    sections: list[tuple[Section, list[Drawn]]] = []
    with closing(PageDrawing()) as drawing:
        for section, group in groupby(answers(trace), lambda answer: answer.section):
            own = list(group)
            found += own
            wide = wide_ones(own)
            sections.append(
                (
                    section,
                    [begun(trace, one, phases, drawing, wide=one.name in wide) for one in own],
                )
            )
        body = "".join(_section(section, figures, found, trace) for section, figures in sections)
    html = _TEMPLATE.format(
        title=escape(_title(found, trace)),
        subtitle=escape(_subtitle(found)),
        style=_style(),
        script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
        contents=_contents([section for section, _ in sections]),
        filters=_filters(trace, phases),
        body=body + _definitions(found),
        made=f"traceql {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    return printable(html)


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
<footer>Made by {made}. Times are those of the recorded run, including profiler overhead.</footer>
<script>{script}</script>
</body>
</html>
"""


def _style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{variables(dark=True)}}}}}"
    sheet = (_FOLDER / "page.css").read_text(encoding="utf-8")
    return f":root{{{variables(dark=False)}}}\n{dark}\n{sheet}"


def _title(found: list[Answer], trace: Trace) -> str:
    return _fact(found, "model") or trace.path.stem


def _subtitle(found: list[Answer]) -> str:
    facts = (
        _fact(found, name) for name in ("architecture", "GPUs", "parallelism", "mode", "versions")
    )
    return " · ".join(fact for fact in facts if fact)


def _fact(found: list[Answer], name: str) -> str:
    recording = [answer for answer in found if answer.query.name == "overview.recording"]
    return next(
        (row["value"] for each in recording for row in each.result if row["fact"] == name), ""
    )


def _contents(sections: list[Section]) -> str:
    links = [f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections]
    return "".join([*links, '<a href="#definitions">Definitions</a>'])


def _filters(trace: Trace, phases: list[str]) -> str:
    """What to choose the rows of; shown by the script, without which nothing can be chosen."""
    ranks = [str(row["rank"]) for row in trace.sql("SELECT rank FROM trace ORDER BY rank")]
    choices = _choice("phase", phases) + _choice("rank", ranks)
    return f'<form id="filters" hidden>{choices}</form>' if choices else ""


def _choice(name: str, values: Sequence[str]) -> str:
    if len(values) < 2:
        return ""
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    select = f'<select name="{name}"><option value="">all</option>{options}</select>'
    return f"<label>{name} {select}</label>"


def _section(section: Section, figures: list[Drawn], found: list[Answer], trace: Trace) -> str:
    parts = "".join(_part(drawn, found, trace) for drawn in figures)
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f'<p class="question">{escape(section.question)}</p>'
        f'<div class="figures">{parts}</div></section>'
    )


def _part(drawn: Drawn, found: list[Answer], trace: Trace) -> str:
    answer, database = drawn.answer, trace.path.name
    if answer.query.name == "overview.headlines":
        return headlines(answer)
    if answer.query.name == "overview.findings":
        return findings(answer, database, {one.query.name: one for one in reversed(found)})
    return figure(drawn, database)


def _definitions(found: list[Answer]) -> str:
    queries = {answer.query.name: answer.query for answer in found}
    entries = []
    for name, query in sorted(queries.items()):
        columns = "".join(
            f"<dt>{escape(column.name)}</dt><dd>{escape(column.text)}</dd>"
            for column in query.head.columns
        )
        entries.append(
            f'<details id="define-{anchor(name)}"><summary><b>{escape(name)}</b> '
            f"{escape(query.head.summary)}</summary><p>{escape(query.head.text)}</p>"
            f"<dl>{columns}</dl></details>"
        )
    return (
        '<section id="definitions"><h2>Definitions</h2>'
        '<p class="question">The meaning of the rows and columns of each figure.</p>'
        f'<div class="definitions">{"".join(entries)}</div></section>'
    )
