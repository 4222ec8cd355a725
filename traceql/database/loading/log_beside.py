"""Refuses a database with a write-ahead log of DuckDB beside it."""

import os
import shlex
from pathlib import Path

from traceql.errors import DatabaseError


def require_no_log(database: Path) -> None:
    """Raises DatabaseError if a write-ahead log of DuckDB is beside the database.

    A log belongs to the very file that it was written for: DuckDB cannot open a new file with it.
    """
    for path in (database, Path(os.path.realpath(database))):
        log = path.with_name(f"{path.name}.wal")
        if log.exists() and not path.exists():
            raise DatabaseError(
                f"{log} is left of a database that is gone; remove it, or name another file with -o"
            )
        if log.exists():
            raise DatabaseError(
                f"{log} has changes that are not in the database yet: a program has the database "
                "open, or was killed. Close that program; if there is none, bring the changes in "
                f"with python -c {shlex.quote(_brings_in(path))}"
            )


def _brings_in(database: Path) -> str:
    return f"import duckdb; duckdb.connect({str(database)!r}).close()"
