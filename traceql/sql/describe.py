"""Puts the summary and column texts of a definition into SQL, as DuckDB comments."""

from collections.abc import Iterator, Mapping

from traceql.sql.definition import Definition, Schema
from traceql.util.sql_text import literal


def comments(one: Definition, place: str) -> str:
    """The statements that describe a table and, if it is public, its columns.

    Each takes DuckDB as long as a short query; of other tables, docs/reference has the columns.

    Args:
        place: the name of the table, with database and schema if it needs them.
    """
    columns = one.columns if one.schema is Schema.MAIN else ()
    return described("TABLE", place, one.summary, {c.name: c.text for c in columns})


def described(what: str, name: str, summary: str, columns: Mapping[str, str]) -> str:
    """The statements that describe something and its columns.

    Args:
        what: TABLE or VIEW.
        columns: their texts by name.
    """
    return "\n".join(_comments(what, name, summary, columns))


def _comments(what: str, name: str, summary: str, columns: Mapping[str, str]) -> Iterator[str]:
    yield f"COMMENT ON {what} {name} IS {literal(summary)};"
    for column, text in columns.items():
        yield f"COMMENT ON COLUMN {name}.{column} IS {literal(text)};"
