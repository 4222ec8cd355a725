"""Opens a database for reading, so that no statement can reach anything else."""

import os
import re
import weakref
from contextlib import suppress
from pathlib import Path

import duckdb

from traceql.errors import DatabaseError
from traceql.excerpted import tell_if_excerpt
from traceql.resources import SCHEMA_VERSION

# With these settings no statement can read other files, load extensions or change the settings.
_LOCKED_DOWN: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
_LOCK_HOLDER = re.compile(r"lock is held in (.*)\(PID (\d+)\)")
# The kinds of databases by their marks: what each is, and what can be done with it elsewhere.
_KINDS = {
    "traceql_database": ("a database of traces", ""),
    "traceql_experiment": (
        "a database of experiments",
        "see it with traceql experiment show {path}",
    ),
}

# The connections of this process, each with the path of its file, and the file's identity then.
_opened: "list[tuple[weakref.ref[duckdb.DuckDBPyConnection], str, tuple[int, int]]]" = []


def opened_database(
    path: Path,
    *,
    otherwise: str,
    mark: str = "traceql_database",
    version: int = SCHEMA_VERSION,
    again: str = "load the traces into a new file",
) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a database that this version of traceql made.

    Args:
        otherwise: what to do if the file is not a database of this kind.
        mark: the table by which such a database is known, whose schema_version must be `version`.
        again: what to do if another version made it.

    Raises:
        DatabaseError: it is not one, or it cannot be opened now.
    """
    _require_current(path)
    try:
        con = duckdb.connect(str(path), read_only=True, config=_LOCKED_DOWN)
    except duckdb.Error as error:
        raise DatabaseError(_refusal(path, str(error), otherwise)) from None
    try:
        versions = con.execute(f"SELECT schema_version FROM {mark}").fetchall()
    except duckdb.Error:
        other = _other_kind(con, mark)
        con.close()
        raise DatabaseError(_not_one(path, other, otherwise)) from None
    if versions != [(version,)]:
        con.close()
        raise DatabaseError(f"{path} was created by another version of traceql; {again}")
    _opened.append((weakref.ref(con), os.path.realpath(path), _identity(path)))
    tell_if_excerpt(con)
    return con


def _other_kind(con: duckdb.DuckDBPyConnection, mark: str) -> str | None:
    """The mark of the other kind of database, if the file is one."""
    tables = "SELECT table_name FROM duckdb_tables() WHERE NOT internal"
    with suppress(duckdb.Error):
        names = {row[0] for row in con.execute(tables).fetchall()}
        return next((one for one in _KINDS if one != mark and one in names), None)
    return None


def _not_one(path: Path, other: str | None, otherwise: str) -> str:
    if other is None:
        return f"{path} is not a traceql database; {otherwise}"
    kind, next_step = _KINDS[other]
    return f"{path} is {kind}; {next_step.format(path=path) or otherwise}"


def _refusal(path: Path, said: str, otherwise: str) -> str:
    if holder := _LOCK_HOLDER.search(said):
        program = Path(holder[1].strip()).name or "a program"
        return f"{path} is locked by PID {holder[2]} ({program}), which has it open; close it there"
    if "different configuration" in said:
        return f"{path} is open in this process, by duckdb.connect; close that connection first"
    if "WAL does not match" in said:
        return f"{path}.wal, beside the database, belongs to another file; move it away"
    if "Permission denied" in said:
        return f"{path} cannot be read: Permission denied"
    return f"{path} is not a traceql database; {otherwise}"


def _require_current(path: Path) -> None:
    """Raises DatabaseError if this process has an older version of the file open.

    A load replaces the file. As long as the old one is open, DuckDB gives that to whoever opens the
    path again in the same process.
    """
    _opened[:] = [one for one in _opened if _is_open(one[0]())]
    real = os.path.realpath(path)
    if any(there == real and then != _identity(path) for _, there, then in _opened):
        raise DatabaseError(
            f"{path} was replaced by a load while this process has the old version open; "
            "close the open Trace first"
        )


def _is_open(con: duckdb.DuckDBPyConnection | None) -> bool:
    if con is not None:
        with suppress(duckdb.ConnectionException):
            con.cursor().close()
            return True
    return False


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
