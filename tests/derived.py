"""Derived tables of events in words, made in memory: no file, no trace processor."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
from traces import Event

from traceql.analysis.classification.rules import write_rules
from traceql.database.loading.draft import every_table
from traceql.sql.definition import Kind
from traceql.sql.execute import (
    create_sources,
    drop_derived,
    make_macros,
    make_tables,
    present,
)
from traceql.sql.query import bound, catalog, query_named
from traceql.sql.registry import definitions
from traceql.sql.tables_read import read_by

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


class Tables:
    """Source tables, and derived tables that are made when a statement first names them.

    What a transaction makes must not be rolled back.
    """

    def __init__(self) -> None:
        self.con = duckdb.connect()
        create_sources(self.con)
        write_rules(self.con, [])

    def clear(self) -> None:
        """Empties the source tables but for what is the same for every trace."""
        drop_derived(self.con)
        for name in present(self.con):  # scratch tables that `insert` has made
            one = definitions().get(name)
            if one and one.kind is Kind.SCRATCH:
                self.con.execute(f"DROP TABLE {one.schema}.{name}")
        for name, one in definitions().items():
            if one.kind is Kind.SOURCE and name not in ("traceql_database", "kernel_rule"):
                self.con.execute(f"DELETE FROM {name}")

    def execute(self, sql: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
        read = read_by(self.con, sql)
        make_tables(self.con, read.tables)
        make_macros(self.con, read.macros)
        return self.con.execute(sql, parameters)

    def fill(self, *events: Event) -> None:
        """Replaces all rows by these events of one rank, numbered from 0 as given."""
        self.clear()
        self.con.execute("INSERT INTO trace (rank, dialect) VALUES (0, 'pytorch')")
        slices = [slice_row(i, e) for i, e in enumerate(e for e in events if e["ph"] == "X")]
        if slices:
            self.con.executemany(_SLICE, slices)
            self.con.execute(ACTIVITIES)
        instants = [instant_row(e) for e in events if e["ph"] == "i"]
        if instants:
            self.con.executemany(_INSTANT, instants)


def make_every_table(con: duckdb.DuckDBPyConnection) -> None:
    make_tables(con, every_table())


def insert(tables: Tables, table: str, *given: Mapping[str, Any]) -> None:
    """Adds rows to a table, a scratch one too, which has no others if it is not made yet."""
    if table not in present(tables.con):
        one = definitions()[table]
        columns = ", ".join(f'"{column.name}" {column.type}' for column in one.columns)
        tables.con.execute(f"CREATE TABLE {one.schema}.{table} ({columns})")
    for row in given:
        marks = ", ".join("?" * len(row))
        tables.con.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()]
        )


Connection = Tables | duckdb.DuckDBPyConnection


def database(*events: Event) -> Tables:
    """All tables of one rank, until the next call; slices are numbered from 0 as given."""
    tables = _shared_tables()
    tables.fill(*events)
    return tables


@cache
def _shared_tables() -> Tables:
    """Those that `database` fills again and again: making them takes longer than a few events."""
    return Tables()


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


def rows(con: Connection, sql: str) -> Sequence[Row]:
    return con.execute(sql).fetchall()


def answer(con: Connection, name: str, **parameters: Any) -> Sequence[Row]:
    """The rows of a canned query."""
    query = query_named(name, catalog())
    return con.execute(query.sql, bound(query, parameters)).fetchall()
