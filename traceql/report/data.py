"""The report for programs: one JSON document, or a folder of CSV files with that document."""

import json
from pathlib import Path
from typing import Any

from traceql.errors import TraceqlError
from traceql.files import write_whole
from traceql.report.facts import Answer, answers
from traceql.table.plain import csv_text, plain_rows
from traceql.trace import Trace
from traceql.version import __version__


def write_json(trace: Trace, path: Path) -> None:
    write_whole(path, _document(list(answers(trace)), trace))


def write_csv(trace: Trace, folder: Path, *, spreadsheet_safe: bool = False) -> None:
    """Writes one CSV file per query, and report.json with all of them; see `csv_text`."""
    found = list(answers(trace))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceqlError(f"cannot create folder {folder}: {error.strerror}") from None
    for answer in found:
        table = answer.result.arrow()
        lines = csv_text(table.column_names, table.to_batches(), spreadsheet_safe=spreadsheet_safe)
        write_whole(folder / f"{answer.name}.csv", "".join(lines).encode())
    write_whole(folder / "report.json", _document(found, trace))


def _document(found: list[Answer], trace: Trace) -> bytes:
    document = {
        "traceql": __version__,
        "database": trace.path.name,
        "answers": [_entry(answer, trace) for answer in found],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, default=str).encode()


def _entry(answer: Answer, trace: Trace) -> dict[str, Any]:
    return {
        "name": answer.name,
        "section": answer.section.name,
        "title": answer.title,
        "command": answer.command(trace.path.name),
        "summary": answer.query.head.summary,
        "columns": [
            {"name": column.name, "type": column.type, "text": column.text}
            for column in answer.query.head.columns
        ],
        "rows": plain_rows(answer.result.arrow()),
    }
