"""Derived tables of events in words, made in memory: no file, no trace processor."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb
from traces import Event

from traceql.classification.rules import write_rules
from traceql.derive.execute import create_sources, derive
from traceql.query import bound, catalog, query_named

Row = tuple[Any, ...]

_SLICE = "INSERT INTO slice VALUES (?, 0, ?, ?, ?, ?, ?, ?, 0, NULL, 0, ?, ?, ?)"
# As a reader would read them from the arguments.
ACTIVITIES = """
    INSERT INTO activity
    SELECT id, where_.device, where_.stream, where_.bytes, where_.grid, where_.block,
        where_."graph node id"
    FROM (
        SELECT id, json_transform(args, '{
            "device": "BIGINT", "stream": "BIGINT", "bytes": "BIGINT",
            "grid": ["INTEGER"], "block": ["INTEGER"], "graph node id": "BIGINT"
        }') AS where_
        FROM slice WHERE cat IN ('kernel', 'gpu_memcpy', 'gpu_memset')
    )
"""
_INSTANT = "INSERT INTO instant VALUES (0, '', ?, ?, ?, ?, 0, ?)"


def database(*events: Event) -> duckdb.DuckDBPyConnection:
    """All tables of one rank, until the next call; slices are numbered from 0 as given."""
    con = _tables()
    con.execute(";".join(f"DELETE FROM {name}" for name in _filled(con)))
    con.execute("INSERT INTO trace (rank, dialect) VALUES (0, 'pytorch')")
    slices = [slice_row(i, e) for i, e in enumerate(e for e in events if e["ph"] == "X")]
    if slices:
        con.executemany(_SLICE, slices)
        con.execute(ACTIVITIES)
    instants = [instant_row(e) for e in events if e["ph"] == "i"]
    if instants:
        con.executemany(_INSTANT, instants)
    derive(con)
    return con


@cache
def _tables() -> duckdb.DuckDBPyConnection:
    """Those that a load fills, made once: that takes longer than a few events."""
    con = duckdb.connect()
    create_sources(con)
    write_rules(con, [])
    return con


def _filled(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Tables but for what is the same for every trace."""
    tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    return sorted({name for (name,) in tables} - {"traceql_database", "kernel_rule"})


def slice_row(number: int, event: Event) -> Row:
    args = event["args"]
    return (
        number,
        event["cat"],
        event["name"],
        round(event["ts"] * 1000),
        round(event["dur"] * 1000),
        event["pid"],
        event["tid"],
        args.get("External id"),
        args.get("correlation"),
        json.dumps(args),
    )


def instant_row(event: Event) -> Row:
    place = (event["pid"], event["tid"])
    return event["name"], round(event["ts"] * 1000), *place, json.dumps(event["args"])


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> Sequence[Row]:
    return con.execute(sql).fetchall()


def answer(con: duckdb.DuckDBPyConnection, name: str, **parameters: Any) -> Sequence[Row]:
    """The rows of a canned query."""
    query = query_named(name, catalog())
    return con.execute(query.sql, bound(query, parameters)).fetchall()
