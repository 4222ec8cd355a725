"""A second connection to the databases of another one."""

import duckdb

from traceql.sql_text import literal


def second_connection(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """One that finds the same tables; DuckDB's own cursors do not know what `USE` has chosen."""
    ((path,),) = con.execute("SELECT current_setting('search_path')").fetchall()
    cursor = con.cursor()
    if path:
        cursor.execute(f"SET search_path = {literal(path)}")
    return cursor
