"""Puts the summary and column texts of a definition into SQL, as DuckDB comments."""

from collections.abc import Iterator

from traceql.derive.definition import Definition, Kind


def comments(one: Definition) -> str:
    """The statements that describe a table, view or macro and its columns."""
    return "\n".join(_comments(one))


def _comments(one: Definition) -> Iterator[str]:
    what = {Kind.VIEW: "VIEW", Kind.MACRO: "MACRO", Kind.TABLE_MACRO: "MACRO TABLE"}.get(
        one.kind, "TABLE"
    )
    yield f"COMMENT ON {what} {one.name} IS {_quoted(one.summary)};"
    for column in one.columns:
        yield f"COMMENT ON COLUMN {one.name}.{column.name} IS {_quoted(column.text)};"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
