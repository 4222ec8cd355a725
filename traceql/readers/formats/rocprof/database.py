"""Reads a database of rocprofv3 (rocpd): an SQLite file with the tables of one or more processes.

The names of its tables end with the id of the process that wrote them; a file that several were
merged into has the tables of each. Ids refer to rows of the same set of tables.
"""

import re
from pathlib import Path
from typing import Any

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.dialects.rocprof.vocabulary import Argument
from traceql.readers.scratch import Scratch
from traceql.readers.sqlite_container import SqliteContainer, opened_sqlite

_KERNELS = "rocpd_kernel_dispatch"
_PROCESSES = "rocpd_info_process"
_SUFFIX = re.compile(rf"(?:{_KERNELS}|{_PROCESSES})(?P<suffix>_\w+)?$")
_OLDER = "rocpd_op"  # of rocmProfileData, whose format rocprofv3 took its name from
# Tables of which some rows are read: the name in the file, a column that may be absent, which rows.
_SOME_ROWS = {
    "message": ("rocpd_event", "extdata", "extdata LIKE '%message%'"),
    "graph": ("rocpd_arg", "name", f"name = '{Argument.GRAPH}'"),
}
_READ_VERSION = 3
_RECORD = "record again with rocprofv3 --output-format rocpd"


def fill_rocpd(path: Path, scratch: Scratch) -> None:
    """Fills the input tables from those of each set.

    Raises:
        TraceCorrupt: the file is damaged, or has another schema.
        NotATrace: it has no processes of rocprofv3.
    """
    with opened_sqlite(path, scratch.folder) as database:
        tables = [name for name, kind in database.tables.items() if kind == "table"]
        parts = sorted({found["suffix"] or "" for t in tables if (found := _SUFFIX.match(t))})
        if not parts:
            raise NotATrace(_unknown(tables))
        for part, suffix in enumerate(parts):
            _require_schema(database, suffix)
            read = {t: (t, "", "TRUE") for t in scratch.declared_tables() if t.startswith("rocpd_")}
            for table, (name, column, where) in (read | _SOME_ROWS).items():
                source = f"{name}{suffix}"
                about: dict[str, Any] = {"constants": {"part": part}, "where": where}
                columns = database.columns(source)
                # Not even the scratch database gets the arguments, which may hold secrets.
                if table == _PROCESSES and "command" in columns:
                    about["select"] = "* REPLACE (program(command) AS command)"
                if not column or column in columns:
                    scratch.fill(database, table, source=source, **about)
            if not scratch.rows("SELECT 1 FROM rocpd_info_process WHERE part = ?", [part]):
                raise TraceCorrupt(f"table {_PROCESSES}{suffix} names no process; {_RECORD}")
        version = _version(database, parts[0])
    scratch.con.execute("SET VARIABLE schema = $1", [version])
    scratch.run(Path(__file__).with_name("rocpd.sql"))


def _unknown(tables: list[str]) -> str:
    if _OLDER in tables:
        return (
            "is a database of rocmProfileData (rpd), another format of this name; convert it with "
            "its rpd2tracing.py and load the JSON, or record with rocprofv3"
        )
    return f"is an SQLite database without the tables of rocprofv3 ({_PROCESSES}); {_RECORD}"


def _version(database: SqliteContainer, suffix: str) -> str | None:
    table = f"rocpd_metadata{suffix}"
    if not {"tag", "value"} <= database.columns(table):
        return None
    found = database.query(f"SELECT value FROM \"{table}\" WHERE tag = 'schema_version'")
    return str(found[0][0]) if found else None


def _require_schema(database: SqliteContainer, suffix: str) -> None:
    """Raises TraceCorrupt without texts or processes, or if the kernels have no times."""
    for table in (f"rocpd_string{suffix}", f"{_PROCESSES}{suffix}"):
        if not database.columns(table):
            raise TraceCorrupt(f"table {table} is missing; {_RECORD}")
    table = f"{_KERNELS}{suffix}"
    columns = database.columns(table)
    if columns and not {"start", "end", "agent_id", "kernel_id"} <= columns:
        raise TraceCorrupt(
            f"table {table} has other columns than schema {_READ_VERSION}, which this version of "
            f"traceql reads (the file has schema {_version(database, suffix) or 'of no number'}); "
            "convert it with rocpd convert --output-format csv and load that, or upgrade traceql"
        )
