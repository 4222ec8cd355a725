"""Lets statements read several databases at once, and nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from traceql.sql_text import literal


def attached(
    con: duckdb.DuckDBPyConnection, sides: Mapping[str, Sequence[Path | None]]
) -> tuple[str, ...]:
    """Attaches databases read-only: the first of the side base as base, the second as base_2.

    Args:
        con: the connection; from now on it can reach no other file.
        sides: the databases of each side; None where a run has none.
    """
    names: list[str] = []
    known: dict[Path, str] = {}
    for side, databases in sides.items():
        for number, database in enumerate(databases, start=1):
            if database is not None:
                names.append(side if number == 1 else f"{side}_{number}")
                _attach(con, database.resolve(), names[-1], known)
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return tuple(names)


def _attach(
    con: duckdb.DuckDBPyConnection, database: Path, name: str, known: dict[Path, str]
) -> None:
    if database not in known:
        con.execute(f"ATTACH {literal(database)} AS {name} (READ_ONLY)")
        known[database] = name
        return
    # DuckDB attaches a file once; the second name gets views of the first.
    con.execute(f"ATTACH ':memory:' AS {name}")
    tables = con.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_catalog = $catalog",
        {"catalog": known[database]},
    ).fetchall()
    for (table,) in tables:
        con.execute(f"CREATE VIEW {name}.{table} AS FROM {known[database]}.{table}")
