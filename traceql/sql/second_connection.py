"""A second connection to the databases of another one."""

import duckdb

from traceql.util.text import literal

MEMORY = "memory.main"  # of every connection that attaches its databases


def second_connection(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """One that finds the same tables; DuckDB's own cursors have another search path."""
    return _with_path(con, search_path_of(con))


def connection_to_memory(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """One that finds the same tables, and creates what is created in memory."""
    return _with_path(con, ",".join(filter(None, [MEMORY, search_path_of(con)])))


def see_memory(con: duckdb.DuckDBPyConnection) -> None:
    """Lets a connection find what is in memory, after what it finds already."""
    path = search_path_of(con)
    if path and MEMORY not in path.split(","):
        con.execute(f"SET search_path = {literal(f'{path},{MEMORY}')}")


def search_path_of(con: duckdb.DuckDBPyConnection) -> str:
    """The search path of a connection; empty if it was not set."""
    ((path,),) = con.execute("SELECT current_setting('search_path')").fetchall()
    return str(path)


def _with_path(con: duckdb.DuckDBPyConnection, path: str) -> duckdb.DuckDBPyConnection:
    cursor = con.cursor()
    if path:
        cursor.execute(f"SET search_path = {literal(path)}")
    return cursor
