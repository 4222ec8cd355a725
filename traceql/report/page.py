"""The report as one self-contained page that opens from disk."""

from contextlib import closing
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path

from traceql.printable import printable
from traceql.report.drawing import PageDrawing, Pictures
from traceql.report.facts import Answer, anchor, answers
from traceql.report.findings import findings, headlines
from traceql.report.picture import variables
from traceql.report.sections import Section
from traceql.table.html import html_table
from traceql.trace import Trace
from traceql.version import __version__

_FOLDER = Path(__file__).parent
_MOST_ROWS = 200  # of a table, because a page is for reading
_SPECIAL = {"overview.headlines": headlines, "overview.findings": findings}


def page(trace: Trace) -> str:
    """The HTML with styles, pictures and the script that sorts tables inside."""
    with closing(PageDrawing()) as drawing:
        found, asked = [], {}
        for answer in answers(trace):
            found.append(answer)
            if pictures := drawing.ask(answer):
                asked[answer.name] = pictures
        drawn = {name: pictures() for name, pictures in asked.items()}
    sections = [
        (section, list(group)) for section, group in groupby(found, lambda answer: answer.section)
    ]
    body = "".join(_section(section, group, drawn, trace) for section, group in sections)
    html = _TEMPLATE.format(
        title=escape(_title(found, trace)),
        subtitle=escape(_subtitle(found)),
        style=_style(),
        script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
        contents=_contents([section for section, _ in sections]),
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
<nav aria-label="Sections">{contents}</nav>
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


def _section(
    section: Section, group: list[Answer], pictures: dict[str, Pictures], trace: Trace
) -> str:
    figures = "".join(
        special(answer, trace.path.name)
        if (special := _SPECIAL.get(answer.query.name))
        else _figure(answer, pictures.get(answer.name), trace)
        for answer in group
    )
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f'<p class="question">{escape(section.question)}</p>'
        f'<div class="figures">{figures}</div></section>'
    )


def _figure(answer: Answer, pictures: Pictures | None, trace: Trace) -> str:
    name = answer.anchor
    drawing = ""
    if pictures and pictures.missing:
        drawing = f'<p class="none">No picture: {escape(pictures.missing)}.</p>'
    elif pictures:
        drawing = (
            f'<div class="wide">{pictures.wide}</div><div class="narrow">{pictures.narrow}</div>'
        )
    is_drawn = bool(pictures and not pictures.missing)
    definition = anchor(answer.query.name)
    return (
        f'<figure id="{name}"><figcaption><h3>{escape(answer.title)}</h3>'
        f'<a href="#define-{definition}" title="What the columns mean">definition</a></figcaption>'
        f"{drawing}{_table(answer, folded=is_drawn and not answer.figure.unfolded)}"
        f"<code>{escape(answer.command(trace.path.name))}</code></figure>"
    )


def _table(answer: Answer, *, folded: bool) -> str:
    rows = len(answer.result)
    texts = {column.name: column.text for column in answer.query.head.columns}
    table = html_table(answer.result.head(_MOST_ROWS).arrow(), texts=texts)
    if rows > _MOST_ROWS:
        table += f'<p class="more">First {_MOST_ROWS} of {rows:,} rows.</p>'
    region = f'role="region" aria-label="{escape(answer.title)}"'
    scrolled = f'<div class="scroll" tabindex="0" {region}>{table}</div>'
    if not folded:
        return scrolled
    counted = f"{rows:,} row{'' if rows == 1 else 's'}"
    return f"<details><summary>{counted}</summary>{scrolled}</details>"


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
