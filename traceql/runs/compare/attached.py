"""Lets statements read several databases at once, and nothing else."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb

from traceql.database.flat_schemas import attach_flat
from traceql.database.tables import complete_database


def attached(
    con: duckdb.DuckDBPyConnection,
    sides: Mapping[str, Sequence[Path | None]],
    *,
    until_closed: ExitStack,
) -> tuple[str, ...]:
    """Attaches databases read-only: the first of the side base as base, the second as base_2.

    All tables of a database are there, in whichever schema it has them.

    Args:
        con: the connection; from now on it can reach no other file.
        sides: the databases of each side; None where a run has none.
        until_closed: keeps what the connection reads.
    """
    databases = {
        side if number == 1 else f"{side}_{number}": one.resolve()
        for side, given in sides.items()
        for number, one in enumerate(given, start=1)
        if one is not None
    }
    for database in dict.fromkeys(databases.values()):
        own = [name for name, one in databases.items() if one == database]
        file = until_closed.enter_context(complete_database(database))
        attach_flat(con, file, *own)
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return tuple(databases)
