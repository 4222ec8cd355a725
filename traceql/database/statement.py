"""One statement of the user: what it returns, in types that Arrow, Python and Parquet keep."""

import re
from collections.abc import Mapping
from typing import Any

import duckdb
from duckdb.sqltypes import DuckDBPyType

from traceql.errors import QueryInvalid
from traceql.result import Result, without_statement
from traceql.sql.query import Chart
from traceql.sql.registry import public_tables
from traceql.util.text import identifier

# Types that Arrow changes or Parquet refuses: UHUGEINT wraps, TIME WITH TIME ZONE loses its zone.
_NOT_IN_ARROW = {"bignum", "bit", "interval", "time with time zone", "uhugeint", "union"}
_NESTED = {"array", "list", "map", "struct"}
_READING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.CALL,
    duckdb.StatementType.MULTI,  # PIVOT
    duckdb.StatementType.PRAGMA,
}
_BEFORE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"  # white space and comments
_EXPLAIN = re.compile(rf"(?is){_BEFORE}EXPLAIN\b{_BEFORE}(ANALYZE\b|\([^)]*\))?")


def relation(
    con: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]
) -> duckdb.DuckDBPyRelation:
    """The rows of a statement, which are not computed yet.

    Raises:
        QueryInvalid: it is several statements, or one that does something else than read.
    """
    if len(duckdb.extract_statements(sql)) > 1:
        raise QueryInvalid("more than one statement; run them one at a time")
    if not _only_reads(sql):
        raise QueryInvalid("the database is read-only; use SELECT")
    relation = con.sql(sql, params=parameters or None)
    if relation is None:
        raise QueryInvalid("the statement has no result; use SELECT")
    return _held_by_arrow(relation)


def _only_reads(sql: str) -> bool:
    """Whether a statement is one of those that read; so must be what EXPLAIN ANALYZE runs."""
    while explained := _EXPLAIN.match(sql):
        sql = sql[explained.end() :]
    return all(_kind(statement) in _READING for statement in duckdb.extract_statements(sql))


def _kind(statement: duckdb.Statement) -> duckdb.StatementType | None:
    """What a statement does; None for what DuckDB can do and its Python package does not name."""
    try:
        return statement.type
    except ValueError:
        return None


def require_select(sql: str, *, what: str) -> None:
    """Refuses statements that would change something.

    Args:
        what: that can only be read, in the message.

    Raises:
        QueryInvalid: it is one, or no SQL.
    """
    try:
        kinds = {_kind(statement) for statement in duckdb.extract_statements(sql)}
    except duckdb.Error as error:
        raise QueryInvalid(without_statement(error)) from None
    if kinds - {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
        raise QueryInvalid(f"{what} can only be read; use SELECT")


def result(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: dict[str, Any],
    chart: Chart | None = None,
    *,
    limit: int | None = None,
) -> Result:
    """The rows of a statement, in memory.

    Raises:
        QueryInvalid: with DuckDB's message in one line.
    """
    try:
        return Result(relation(con, sql, parameters).to_arrow_table(), chart, limit=limit)
    except duckdb.Error as error:
        raise QueryInvalid(without_statement(error)) from None


def register_frames(con: duckdb.DuckDBPyConnection, frames: Mapping[str, Any]) -> None:
    """Lets the statements of this connection read data frames by their names.

    Args:
        frames: of pandas, Polars or Arrow, or results.

    Raises:
        QueryInvalid: one is no data frame, or has the name of a table.
    """
    import pyarrow as pa

    for name, frame in frames.items():
        if name.lower() in public_tables():
            raise QueryInvalid(f"frame '{name}' has the name of a table; give it another name")
        if not hasattr(frame, "__arrow_c_stream__"):
            kind = type(frame).__name__
            raise QueryInvalid(f"frame '{name}' is of type {kind}; give a data frame")
        con.register(name, pa.table(frame))


def _held_by_arrow(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Casts the columns to texts that Arrow, Python or Parquet would change or refuse."""
    cast = [_is_changed(kind) for kind in relation.types]
    if not any(cast):
        return relation
    columns = enumerate(zip(relation.columns, cast, strict=True), start=1)
    return relation.project(
        ", ".join(
            f"{f'CAST(#{place} AS VARCHAR)' if is_cast else f'#{place}'} AS {identifier(name)}"
            for place, (name, is_cast) in columns
        )
    )


def _is_changed(kind: DuckDBPyType) -> bool:
    if kind.id in _NESTED:
        return any(_is_changed(part) for _, part in kind.children if isinstance(part, DuckDBPyType))
    return kind.id in _NOT_IN_ARROW
