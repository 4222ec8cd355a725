"""Finds the tables and macros that a statement reads, so that they can be made before it runs."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import duckdb

from traceql.sql.definition import Definition, Schema
from traceql.sql.registry import definitions

_WORD = re.compile(r"\w+")
# What lists tables or columns.
_CATALOG = re.compile(
    r"(?i)^\s*show\b|\b(duckdb_(tables|columns|views)|information_schema|pg_\w+|sqlite_master)\b"
)
_LITERAL = re.compile(r"'[^']*'")
_OTHER_SCHEMA = re.compile(r"(?i)\b(internal|reference)\b")
_PARSE = "SELECT json_serialize_sql(?)"
_PARSED: dict[str, frozenset[tuple[str, str]]] = {}  # what `_names` has found, by statement


@dataclass(frozen=True)
class Read:
    """What a statement reads.

    Attributes:
        tables: the names of tables of a database, those that macros read included.
        macros: the names of the macros that it calls.
    """

    tables: frozenset[str]
    macros: frozenset[str]


def read_by(con: duckdb.DuckDBPyConnection, sql: str, *, public: bool = False) -> Read:
    """The tables and macros of traceql that a statement reads.

    A statement that is no plain SELECT is searched for words, which may find more.

    Args:
        con: of any database; it parses the statement.
        public: whether the statement sees other schemas than main only where it names them.
    """
    known = definitions()
    named = _names(con, sql, known)
    found = {name for schema, name in named if name in known and (schema or not public)}
    if public:
        main = {name for name, one in known.items() if one.schema is Schema.MAIN}
        found |= main if lists_tables(sql) else main & {name for _, name in named}
    macros = {name for name in found if known[name].kind.is_macro}
    found |= _needed_by(macros, known)
    return Read(frozenset(name for name in found if known[name].kind.is_kept), frozenset(macros))


def _needed_by(macros: Iterable[str], known: Mapping[str, Definition]) -> set[str]:
    """The tables and macros that macros read, directly or through others."""
    found: set[str] = set()
    waiting = [*macros]
    while waiting:
        for needed in set(known[waiting.pop()].needs) - found:
            found.add(needed)
            if known[needed].kind.is_macro:
                waiting.append(needed)
    return found


def words_of(sql: str) -> set[str]:
    """The words of a statement in lower case; names of tables are among them."""
    return {word.lower() for word in _WORD.findall(sql)}


def lists_tables(sql: str) -> bool:
    """Whether a statement lists tables or columns."""
    return bool(_CATALOG.search(_LITERAL.sub("", sql)))


def _names(
    con: duckdb.DuckDBPyConnection, sql: str, known: Mapping[str, Definition]
) -> frozenset[tuple[str, str]]:
    """The schema and the name of each table and function; the schema is empty if none is named."""
    if sql not in _PARSED:
        _PARSED[sql] = frozenset(_parsed_names(con, sql, known))
    return _PARSED[sql]


def _parsed_names(
    con: duckdb.DuckDBPyConnection, sql: str, known: Mapping[str, Definition]
) -> Iterable[tuple[str, str]]:
    with con.cursor() as own:  # the connection may have an answer that is not read yet
        ((text,),) = own.execute(_PARSE, [sql]).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        schema = "other" if _OTHER_SCHEMA.search(sql) else ""
        return {(schema, word) for word in words_of(sql)}
    macros = {name for name, one in known.items() if one.kind.is_macro}
    return _found(parsed, {"query_table", *macros})


def _found(node: Any, taking: Set[str]) -> Iterator[tuple[str, str]]:
    """Those in a node of the parsed statement and below it.

    Args:
        taking: the table functions that take names of tables.
    """
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            schema = node["schema_name"].lower()
            yield "" if schema == Schema.MAIN else schema, node["table_name"].lower()
        elif node.get("type") == "TABLE_FUNCTION":
            # A macro can take names of tables, and query_table a list of them.
            called = node["function"]
            if called["function_name"].lower() in taking:
                for text in _texts(called["arguments"]):
                    yield "", text.lower().removeprefix("main.")
        elif "function_name" in node:
            yield "", node["function_name"].lower()
        for below in node.values():
            yield from _found(below, taking)
    elif isinstance(node, list):
        for below in node:
            yield from _found(below, taking)


def _texts(node: Any) -> Iterator[str]:
    """The texts that stand in a node of the parsed statement and below it."""
    if isinstance(node, dict):
        if "literal" in node:
            yield node["literal"].get("text", "")
        for below in node.values():
            yield from _texts(below)
    elif isinstance(node, list):
        for below in node:
            yield from _texts(below)
