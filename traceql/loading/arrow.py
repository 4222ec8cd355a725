"""Hands Arrow tables to DuckDB."""

import duckdb
import pyarrow as pa


def write_table(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Creates or replaces a table."""
    con.register("incoming", table)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
    con.unregister("incoming")
