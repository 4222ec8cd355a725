"""The report for programs: one JSON document, or a folder of CSV files with that document."""

import json
from pathlib import Path
from typing import Any

from traceql.database.database import Database
from traceql.present.report.facts import Answer, answers
from traceql.result.text_table.export import csv_text, plain_rows
from traceql.util.files import atomic_write, write_folder
from traceql.util.resources import __version__


def write_json(trace: Database, path: Path) -> None:
    with atomic_write(path) as draft:
        draft.write_bytes(_document(list(answers(trace)), trace))


def write_csv(trace: Database, folder: Path, *, spreadsheet_safe: bool = False) -> None:
    """Writes one CSV file per query, and report.json with all of them; see `csv_text`."""
    found = list(answers(trace))
    files = {f"{one.name}.csv": _csv(one, spreadsheet_safe) for one in found}
    write_folder(folder, files | {"report.json": _document(found, trace)})


def _csv(answer: Answer, spreadsheet_safe: bool) -> bytes:
    table = answer.result.arrow()
    lines = csv_text(table.column_names, table.to_batches(), spreadsheet_safe=spreadsheet_safe)
    return "".join(lines).encode()


def _document(found: list[Answer], trace: Database) -> bytes:
    document = {
        "traceql": __version__,
        "database": trace.path.name,
        "excerpt": trace.excerpt_info.text if trace.excerpt_info else None,
        "answers": [_entry(answer, trace) for answer in found],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, default=str).encode()


def _entry(answer: Answer, trace: Database) -> dict[str, Any]:
    return {
        "name": answer.name,
        "section": answer.section.name,
        "title": answer.title,
        "command": answer.command(trace.command_argument),
        "summary": answer.query.head.summary,
        "columns": [
            {"name": column.name, "type": column.type, "text": column.text}
            for column in answer.query.head.columns
        ],
        "rows": plain_rows(answer.result.arrow()),
    }
