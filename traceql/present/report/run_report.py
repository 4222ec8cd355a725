"""The report on a run: a self-contained page, one JSON document, or a folder of CSV files."""

import json
from collections.abc import Mapping
from contextlib import closing
from html import escape
from itertools import groupby
from os.path import commonpath
from pathlib import Path
from typing import Any

from traceql.analysis.diagnosis.texts import nothing_found, query_command, saving
from traceql.database.database import Database
from traceql.present.report.answers import Answer, answers, selectable_phases, wide_figures
from traceql.present.report.charts import PageCharts
from traceql.present.report.html_page import (
    PendingFigure,
    begin_figure,
    definitions_html,
    figure_html,
    format_value,
    html_page,
    section_html,
    section_links,
    tiles_html,
)
from traceql.present.report.sections import Section
from traceql.result.text_table.export import csv_text, plain_rows
from traceql.util.files import atomic_write, write_folder
from traceql.util.resources import __version__

# Folders that every recording of a profiler has, so their names say nothing.
_COMMON_FOLDERS = ("traces", "ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")


def page(database: Database) -> str:
    """The HTML with styles, pictures and the script that sorts and filters rows inside."""
    phases = selectable_phases(database)
    found: list[Answer] = []
    sections: list[tuple[Section, list[PendingFigure]]] = []
    with closing(PageCharts()) as charts:
        for section, group in groupby(answers(database), lambda answer: answer.section):
            own = list(group)
            found += own
            wide = wide_figures(own)
            pending = [
                begin_figure(database, one, phases, charts, wide=one.name in wide) for one in own
            ]
            sections.append((section, pending))
        body = "".join(
            section_html(section, (_figure(one, found, database) for one in pending))
            for section, pending in sections
        )
    facts = {
        row["fact"]: row["value"]
        for answer in reversed(found)
        if answer.query.name == "overview.recording"
        for row in reversed(answer.result.rows())
    }
    subtitle = ("architecture", "devices", "parallelism", "mode", "versions")
    return html_page(
        facts.get("model") or recording_name(database) or database.path.stem,
        " · ".join(filter(None, map(facts.get, subtitle))),
        section_links(section for section, _ in sections),
        body + definitions_html({one.query.name: one.query for one in found}.values()),
        filters=_filters(database, phases),
        part=database.excerpt_info.text if database.excerpt_info else "",
    )


def recording_name(database: Database) -> str:
    """The name of the only trace file, or of the folder of all; empty if there is none."""
    paths = [Path(row["path"]) for row in database.select("SELECT DISTINCT path FROM trace")]
    if not paths:
        return ""
    folder = Path(commonpath([path.parent for path in paths]))
    if len(paths) == 1 and folder.name not in _COMMON_FOLDERS:
        return paths[0].name.partition(".")[0]
    while folder.name in _COMMON_FOLDERS:
        folder = folder.parent
    return folder.name


def _filters(database: Database, phases: list[str]) -> str:
    """The form that selects rows; the script shows it, which does the selecting."""
    ranks = [
        str(row["rank"])
        for row in database.select("SELECT rank FROM trace WHERE rank IS NOT NULL ORDER BY rank")
    ]
    choices = ""
    for name, values in (("phase", phases), ("rank", ranks)):
        if len(values) > 1:
            options = "".join(f"<option>{escape(value)}</option>" for value in values)
            select = f'<select name="{name}"><option value="">all</option>{options}</select>'
            choices += f"<label>{name} {select}</label>"
    return f'<form id="filters" hidden>{choices}</form>' if choices else ""


def _figure(pending: PendingFigure, found: list[Answer], database: Database) -> str:
    answer = pending.answer
    if answer.query.name == "overview.headlines":
        return tiles_html(
            (
                escape(row["headline"]),
                format_value(row["value"], row["unit"]),
                escape(row["note"]),
                "",
            )
            for row in answer.result
        )
    if answer.query.name == "overview.findings":
        if not len(answer.result):
            is_timeline = bool(len(database.select("FROM trace LIMIT 1")))
            return no_findings(answer, nothing_found(is_timeline))
        figures = {one.query.name: one for one in reversed(found)}
        return findings(answer, database.command_argument, figures)
    return figure_html(pending)


def findings(answer: Answer, database: str, figures: Mapping[str, Answer]) -> str:
    """Each finding: headline, evidence and remedy, and links to what shows it."""
    items = (
        f'<li class="{escape(row["severity"])}"><b>{escape(row["headline"])}</b>'
        f'<p><span class="severity">{escape(row["severity"])}</span> '
        f"{escape(' '.join(row['evidence']))}</p>{_evidence(row, database, figures)}</li>"
        for row in answer.result
    )
    return f'<ol class="findings">{"".join(items)}</ol>'


def no_findings(answer: Answer, reason: str) -> str:
    return f'<p class="none">{escape(f"{answer.figure.empty} {reason}.")}</p>'


def _evidence(row: Mapping[str, Any], database: str, figures: Mapping[str, Answer]) -> str:
    """The remedy, the saving, what is unknown, the figure, the commands for rows and trace."""
    places = [("try", f"<code>{escape(row['remedy'])}</code>")] if row["remedy"] else []
    if text := saving(row):
        places.append(("saves", escape(text)))
    if row["unknowns"]:
        places.append(("unknown", escape(row["unknowns"])))
    if shown := figures.get(row["query"]):
        # A click on the link sets the filters of the page.
        selected = "".join(
            f' data-{name}="{escape(str(row["parameters"][name]))}"'
            for name in ("phase", "rank")
            if name in row["parameters"]
        )
        places.append(("figure", f'<a href="#{shown.anchor}"{selected}>{escape(shown.title)}</a>'))
    places.append(("rows", f"<code>{escape(query_command(row, database))}</code>"))
    if row["ts"] is not None:
        command = f"traceql ui {database} --finding {row['rank_order']}"
        places.append(("trace", f"<code>{escape(command)}</code>"))
    return f'<dl class="places">{"".join(f"<dt>{a}</dt><dd>{b}</dd>" for a, b in places)}</dl>'


def write_json(database: Database, path: Path) -> None:
    with atomic_write(path) as draft:
        draft.write_bytes(_document(list(answers(database)), database))


def write_csv(database: Database, folder: Path, *, spreadsheet_safe: bool = False) -> None:
    """Writes one CSV file per query, and report.json with all of them; see `csv_text`."""
    found = list(answers(database))
    files = {"report.json": _document(found, database)}
    for one in found:
        table = one.result.arrow()
        batches = table.to_batches()
        lines = csv_text(table.column_names, batches, spreadsheet_safe=spreadsheet_safe)
        files[f"{one.name}.csv"] = "".join(lines).encode()
    write_folder(folder, files)


def _document(found: list[Answer], database: Database) -> bytes:
    document = {
        "traceql": __version__,
        "database": database.path.name,
        "excerpt": database.excerpt_info.text if database.excerpt_info else None,
        "answers": [
            {
                "name": answer.name,
                "section": answer.section.name,
                "title": answer.title,
                "command": answer.command(database.command_argument),
                "summary": answer.query.head.summary,
                "columns": [vars(column) for column in answer.query.head.columns],
                "rows": plain_rows(answer.result.arrow()),
            }
            for answer in found
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, default=str).encode()
