"""Opens a database for reading, so that no statement can reach anything else."""

import re
from contextlib import suppress
from pathlib import Path

import duckdb

from traceql.database.excerpted import tell_if_excerpt
from traceql.errors import DatabaseError
from traceql.sql.second_connection import MEMORY
from traceql.util.resources import SCHEMA_VERSION
from traceql.util.sql_text import identifier, literal

# With these settings no statement can read other files, load extensions or change the settings.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_LOCK_DOWN = """
    SET allowed_configs = ['search_path'];
    SET enable_external_access = false;
    SET lock_configuration = true
"""
_SCHEMAS = """
    SELECT schema_name FROM duckdb_schemas()
    WHERE database_name = $database AND schema_name IN ('main', 'internal', 'reference')
    ORDER BY schema_name = 'main' DESC, schema_name
"""
# Names of DuckDB's own databases, and of our schemas, which could not be told from the database.
_TAKEN = ("memory", "system", "temp", "main", "internal", "reference")
_LOCK_HOLDER = re.compile(r"lock is held in (.*)\(PID (\d+)\)")
# The kinds of databases by their marks: what each is, and what can be done with it elsewhere.
_KINDS = {
    "traceql_database": ("a database of traces", ""),
    "traceql_experiment": (
        "a database of experiments",
        "see it with traceql experiment show {path}",
    ),
}


def opened_database(
    path: Path,
    *,
    otherwise: str,
    mark: str = "traceql_database",
    version: int = SCHEMA_VERSION,
    again: str = "load the traces into a new file",
) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a database that this version of traceql made.

    It finds the tables of all schemas by their names alone. The database is attached, not opened:
    a process can have it open several times, and its file can be replaced meanwhile.

    Args:
        otherwise: what to do if the file is not a database of this kind.
        mark: the table by which such a database is known, whose schema_version must be `version`.
        again: what to do if another version made it.

    Raises:
        DatabaseError: it is not one, or it cannot be opened now.
    """
    con = duckdb.connect(config=_CONFIG | {"temp_directory": f"{path}.tmp"})
    try:
        _attach(con, path, otherwise)
        try:
            versions = con.execute(f"SELECT schema_version FROM {mark}").fetchall()
        except duckdb.Error:
            raise DatabaseError(_not_one(path, _other_kind(con, mark), otherwise)) from None
        if versions != [(version,)]:
            raise DatabaseError(f"{path} was created by another version of traceql; {again}")
        con.execute(_LOCK_DOWN)
    except DatabaseError:
        con.close()
        raise
    tell_if_excerpt(con)
    return con


def _attach(con: duckdb.DuckDBPyConnection, path: Path, otherwise: str) -> None:
    name = "database" if path.stem.lower() in _TAKEN else path.stem
    try:
        con.execute(f"ATTACH {literal(path)} AS {identifier(name)} (READ_ONLY)")
    except duckdb.Error as error:
        raise DatabaseError(_refusal(path, str(error), otherwise)) from None
    schemas = con.execute(_SCHEMAS, {"database": name}).fetchall()
    found = ",".join([*(f"{identifier(name)}.{schema}" for (schema,) in schemas), MEMORY])
    con.execute(f"SET search_path = {literal(found)}")


def public_cursor(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Another connection to the same database, which finds tables of the schema main alone."""
    ((name,),) = con.execute("SELECT current_database()").fetchall()
    cursor = con.cursor()
    cursor.execute(f"SET search_path = {literal(f'{identifier(name)}.main')}")
    return cursor


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
    if "file handle conflict" in said or "different configuration" in said:
        return f"{path} is open in this process, by duckdb.connect; close that connection first"
    if "WAL does not match" in said:
        return f"{path}.wal, beside the database, belongs to another file; move it away"
    if "Permission denied" in said:
        return f"{path} cannot be read: Permission denied"
    return f"{path} is not a traceql database; {otherwise}"
