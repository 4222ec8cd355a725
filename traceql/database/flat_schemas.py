"""Attaches a database so that the tables of all its schemas are found behind one name."""

from pathlib import Path

import duckdb

from traceql.util.sql_text import identifier, literal

_TABLES = """
    SELECT schema_name, table_name FROM duckdb_tables()
    WHERE database_name = $database AND NOT temporary
    ORDER BY table_oid
"""


def attach_flat(con: duckdb.DuckDBPyConnection, file: Path, *names: str) -> None:
    """Attaches a database read-only; `NAME.TABLE` is its table, in whichever schema that is.

    Args:
        names: under which it is found; they are databases of views, as DuckDB attaches a file once.
    """
    database = f"file_of_{names[0]}"
    con.execute(f"ATTACH {literal(file)} AS {identifier(database)} (READ_ONLY)")
    tables = con.execute(_TABLES, {"database": database}).fetchall()
    for name in names:
        con.execute(f"ATTACH ':memory:' AS {identifier(name)}")
        for schema, table in tables:
            con.execute(
                f"CREATE VIEW {identifier(name)}.main.{identifier(table)} AS "
                f"FROM {identifier(database)}.{schema}.{identifier(table)}"
            )
