"""Writes the summaries and column texts of definitions into the database, as DuckDB comments."""

from collections.abc import Iterator

import duckdb

from traceql.derive.definition import Definition, Kind
from traceql.derive.registry import definitions


def describe(con: duckdb.DuckDBPyConnection) -> None:
    """Adds a comment to every table, view, macro and column that stays in the database."""
    kept = [one for one in definitions().values() if not one.kind.is_scratch]
    con.begin()  # a commit for each comment would take longer
    con.execute("\n".join(statement for one in kept for statement in _comments(one)))
    con.commit()


def _comments(one: Definition) -> Iterator[str]:
    what = {Kind.VIEW: "VIEW", Kind.MACRO: "MACRO"}.get(one.kind, "TABLE")
    yield f"COMMENT ON {what} {one.name} IS {_quoted(one.summary)};"
    for column in one.columns:
        yield f"COMMENT ON COLUMN {one.name}.{column.name} IS {_quoted(column.text)};"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
