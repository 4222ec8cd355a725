"""Writes docs/reference from the heads of queries and the comments of tables.

    python docs/make_reference.py

tests/test_docs.py fails where the pages are not what this writes.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import traceql
from traceql.query import Parameter, Query, catalog

FOLDER = Path(__file__).parent / "reference"
_NOTE = "<!-- Made by docs/make_reference.py; change the files that it reads instead. -->"
_COLUMNS = """
    SELECT
        columns.table_name,
        COALESCE(tables.comment, views.comment) AS about,
        columns.column_name,
        columns.data_type,
        columns.comment
    FROM duckdb_columns() AS columns
    LEFT JOIN duckdb_tables() AS tables USING (table_name)
    LEFT JOIN duckdb_views() AS views ON columns.table_name = views.view_name
    WHERE NOT columns.internal
    ORDER BY columns.table_name, columns.column_index
"""


def pages() -> dict[str, str]:
    """Each page's name and text."""
    return {"queries.md": _queries(), "tables.md": _tables()}


def _queries() -> str:
    found = catalog()
    listed = [f"- [`{name}`](#{_anchor(name)}): {q.head.summary}" for name, q in found.items()]
    described = [_described(query) for query in found.values()]
    intro = '# Queries\n\n`traceql run NAME DB`, or `trace.run("NAME")`.'
    return "\n\n".join([_NOTE, intro, "\n".join(listed), "\n".join(described)])


def _described(query: Query) -> str:
    head = query.head
    parts = [f"## {query.name}\n", f"{head.summary}\n"]
    if head.text:
        parts.append(f"{head.text}\n")
    if head.parameters:
        parts += ["| parameter | type | default | |", "|---|---|---|---|"]
        parts += [
            _row(f"`--{p.name}`", p.type.__name__, _default(p), _meaning(p))
            for p in head.parameters
        ]
        parts.append("")
    parts += ["| column | type | |", "|---|---|---|"]
    parts += [_row(f"`{c.name}`", c.type, c.text) for c in head.columns]
    return "\n".join([*parts, ""])


def _default(parameter: Parameter) -> str:
    return "" if parameter.default is None else f"`{parameter.default}`"


def _meaning(parameter: Parameter) -> str:
    if not parameter.values:
        return parameter.text
    return f"{parameter.text} One of {', '.join(parameter.values)}."


def _tables() -> str:
    tables = [f"## {name}\n\n{about}\n\n{rows}" for name, about, rows in _described_tables()]
    intro = "# Tables\n\n`ts` is nanoseconds since the run's first event, `dur` nanoseconds."
    return "\n\n".join([_NOTE, intro, "\n".join(tables)])


def _described_tables() -> Iterator[tuple[str, str, str]]:
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "empty.json"
        trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": []}))
        traceql.load([trace], Path(folder) / "empty.duckdb")
        with traceql.Trace(Path(folder) / "empty.duckdb") as empty:
            columns = empty.sql(_COLUMNS).rows()
    for (name, about), group in groupby(columns, lambda row: (row["table_name"], row["about"])):
        rows = [_row(f"`{c['column_name']}`", c["data_type"], c["comment"]) for c in group]
        yield name, about, "\n".join(["| column | type | |", "|---|---|---|", *rows, ""])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _anchor(name: str) -> str:
    return name.replace(".", "")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
