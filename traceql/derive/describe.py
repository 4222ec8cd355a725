"""Puts the summary and column texts of a definition into SQL, as DuckDB comments."""

from collections.abc import Iterator, Mapping

from traceql.derive.definition import Definition, Kind
from traceql.sql_text import literal


def comments(one: Definition) -> str:
    """The statements that describe a table, view or macro and its columns."""
    what = {Kind.VIEW: "VIEW", Kind.MACRO: "MACRO", Kind.TABLE_MACRO: "MACRO TABLE"}.get(
        one.kind, "TABLE"
    )
    return described(what, one.name, one.summary, {c.name: c.text for c in one.columns})


def described(what: str, name: str, summary: str, columns: Mapping[str, str]) -> str:
    """The statements that describe something and its columns.

    Args:
        what: TABLE, VIEW, MACRO or MACRO TABLE.
        columns: their texts by name.
    """
    return "\n".join(_comments(what, name, summary, columns))


def _comments(what: str, name: str, summary: str, columns: Mapping[str, str]) -> Iterator[str]:
    yield f"COMMENT ON {what} {name} IS {literal(summary)};"
    for column, text in columns.items():
        yield f"COMMENT ON COLUMN {name}.{column} IS {literal(text)};"
