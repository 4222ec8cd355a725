"""The report as one self-contained page that opens from disk."""

from collections.abc import Sequence
from contextlib import closing
from html import escape
from itertools import groupby
from os.path import commonpath
from pathlib import Path

from traceql.analysis.findings.catalog import nothing_found
from traceql.database.database import Database
from traceql.present.report.drawing import PageDrawing
from traceql.present.report.facts import Answer, answers
from traceql.present.report.figure import Drawn, begun, figure
from traceql.present.report.findings import findings, headlines, no_findings
from traceql.present.report.layout import wide_ones
from traceql.present.report.phases import phases_of
from traceql.present.report.sections import Section
from traceql.present.report.shell import definitions, html_page, section_html, section_links

_ALIKE = ("traces", "ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")


def page(trace: Database) -> str:
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
    named = {answer.query.name: answer.query for answer in found}
    return html_page(
        _title(found, trace),
        _subtitle(found),
        section_links(section for section, _ in sections),
        body + definitions(named.values()),
        filters=_filters(trace, phases),
        part=trace.excerpt_info.text if trace.excerpt_info else "",
    )


def _title(found: list[Answer], trace: Database) -> str:
    return _fact(found, "model") or recording_name(trace) or trace.path.stem


def recording_name(trace: Database) -> str:
    """The name of the only trace file, or of the folder of all; empty if there is none.

    Folders in which a profiler puts its files of every recording are no names.
    """
    paths = [Path(row["path"]) for row in trace.select("SELECT DISTINCT path FROM trace")]
    if not paths:
        return ""
    folder = Path(commonpath([path.parent for path in paths]))
    if len(paths) == 1 and folder.name not in _ALIKE:
        return paths[0].name.partition(".")[0]
    while folder.name in _ALIKE:
        folder = folder.parent
    return folder.name


def _subtitle(found: list[Answer]) -> str:
    facts = (
        _fact(found, name)
        for name in ("architecture", "devices", "parallelism", "mode", "versions")
    )
    return " · ".join(fact for fact in facts if fact)


def _fact(found: list[Answer], name: str) -> str:
    recording = [answer for answer in found if answer.query.name == "overview.recording"]
    return next(
        (row["value"] for each in recording for row in each.result if row["fact"] == name), ""
    )


def _filters(trace: Database, phases: list[str]) -> str:
    """What to choose the rows of; shown by the script, without which nothing can be chosen."""
    ranks = [str(row["rank"]) for row in trace.select("SELECT rank FROM trace ORDER BY rank")]
    choices = _choice("phase", phases) + _choice("rank", ranks)
    return f'<form id="filters" hidden>{choices}</form>' if choices else ""


def _choice(name: str, values: Sequence[str]) -> str:
    if len(values) < 2:
        return ""
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    select = f'<select name="{name}"><option value="">all</option>{options}</select>'
    return f"<label>{name} {select}</label>"


def _section(section: Section, figures: list[Drawn], found: list[Answer], trace: Database) -> str:
    return section_html(section, (_part(drawn, found, trace) for drawn in figures))


def _part(drawn: Drawn, found: list[Answer], trace: Database) -> str:
    answer, database = drawn.answer, trace.command_argument
    if answer.query.name == "overview.headlines":
        return headlines(answer)
    if answer.query.name == "overview.findings":
        shown = {one.query.name: one for one in reversed(found)}
        if not len(answer.result):
            return no_findings(answer, nothing_found(trace))
        return findings(answer, database, shown)
    return figure(drawn)
