"""Opens databases so that no statement can reach anything else."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceql.database.notices import report_excerpt
from traceql.errors import DatabaseError
from traceql.sql.second_connection import MEMORY
from traceql.util.resources import SCHEMA_VERSION
from traceql.util.text import identifier, literal

EXCERPT_TABLE = "excerpt"  # a database is an excerpt if it has this table
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
_TABLES = """
    SELECT schema_name, table_name FROM duckdb_tables()
    WHERE database_name = $database AND NOT temporary
    ORDER BY table_oid
"""
# Names of DuckDB's own databases and of our schemas, which would be ambiguous.
_TAKEN = ("memory", "system", "temp", "main", "internal", "reference")
_LOCK_HOLDER = re.compile(r"lock is held in (.*)\(PID (\d+)\)")
# The kinds of databases by their marks: what each is, and what can be done with it elsewhere.
_SEE = "see it with traceql experiment show {path}"
_KINDS = {
    "traceql_database": ("a database of traces", ""),
    "traceql_experiment": ("a database of experiments", _SEE),
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
        mark: the table by which such a database is known, whose schema_version must be `version`.

    Raises:
        DatabaseError: it is not one, or it cannot be opened now.
    """
    con = duckdb.connect(config=_CONFIG | {"temp_directory": f"{path}.tmp"})
    try:
        name = _attach(con, path, otherwise)
        schemas = con.execute(_SCHEMAS, {"database": name}).fetchall()
        found = ",".join([*(f"{identifier(name)}.{schema}" for (schema,) in schemas), MEMORY])
        con.execute(f"SET search_path = {literal(found)}")
        try:
            versions = con.execute(f"SELECT schema_version FROM {mark}").fetchall()
        except duckdb.Error:
            raise DatabaseError(_not_one(con, path, mark, otherwise)) from None
        if versions != [(version,)]:
            raise DatabaseError(f"{path} was created by another version of traceql; {again}")
        con.execute(_LOCK_DOWN)
    except DatabaseError:
        con.close()
        raise
    if excerpt := excerpt_in(con):
        report_excerpt(excerpt.text)
    return con


def attach_public(con: duckdb.DuckDBPyConnection, path: Path) -> str:
    """Attaches a database read-only; the connection finds its public tables by their names alone.

    Returns:
        The name of the database in SQL.

    Raises:
        DatabaseError: it cannot be opened now.
    """
    name = _attach(con, path, "load the traces again")
    con.execute(f"SET search_path = {literal(public_search_path(name))}")
    return identifier(name)


def public_search_path(database: str) -> str:
    """The search path of a connection that finds the tables of the schema main alone."""
    return f"{identifier(database)}.main"


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


@dataclass(frozen=True)
class Excerpt:
    """The part of a run that a database has."""

    source: str  # name of the database of the whole run
    options: str  # of the command line, that choose the same part of it
    text: str  # one line: the windows, how they were chosen, and their share of the run


def excerpt_in(con: duckdb.DuckDBPyConnection) -> Excerpt | None:
    """The part of a run that this database has; None for the database of a whole run."""
    try:
        found = con.execute(f"SELECT source, options, text FROM {EXCERPT_TABLE}").fetchall()
    except duckdb.CatalogException:
        return None
    return Excerpt(*found[0])


def _attach(con: duckdb.DuckDBPyConnection, path: Path, otherwise: str) -> str:
    """The name under which the database is attached."""
    name = "database" if path.stem.lower() in _TAKEN else path.stem
    try:
        con.execute(f"ATTACH {literal(path)} AS {identifier(name)} (READ_ONLY)")
    except duckdb.Error as error:
        raise DatabaseError(_refusal(path, str(error), otherwise)) from None
    return name


def _not_one(con: duckdb.DuckDBPyConnection, path: Path, mark: str, otherwise: str) -> str:
    names = set[str]()
    with suppress(duckdb.Error):
        tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal")
        names = {name for (name,) in tables.fetchall()}
    for other, (kind, next_step) in _KINDS.items():
        if other != mark and other in names:
            return f"{path} is {kind}; {next_step.format(path=path) or otherwise}"
    return f"{path} is not a traceql database; {otherwise}"


def _refusal(path: Path, message: str, otherwise: str) -> str:
    if holder := _LOCK_HOLDER.search(message):
        program = Path(holder[1].strip()).name or "a program"
        return f"{path} is locked by PID {holder[2]} ({program}), which has it open; close it there"
    if "file handle conflict" in message or "different configuration" in message:
        return f"{path} is open in this process, by duckdb.connect; close that connection first"
    if "WAL does not match" in message:
        return f"{path}.wal, beside the database, belongs to another file; move it away"
    if "Permission denied" in message:
        return f"{path} cannot be read: Permission denied"
    return f"{path} is not a traceql database; {otherwise}"
