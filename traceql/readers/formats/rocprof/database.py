"""Reads a database of rocprofv3 (rocpd): an SQLite file with the tables of one or more processes.

The names of its tables end with the id of the process that wrote them; a file that several were
merged into has the tables of each. Ids refer to rows of the same set of tables.
"""

import re
from pathlib import Path

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.dialects.rocprof.vocabulary import Argument
from traceql.readers.scratch import Scratch
from traceql.readers.sqlite_container import opened_sqlite

_KERNELS = "rocpd_kernel_dispatch"
_PROCESSES = "rocpd_info_process"
_NEEDED = (_PROCESSES, "rocpd_string")
_SUFFIX = re.compile(rf"(?:{_KERNELS}|{_PROCESSES})(?P<suffix>_\w+)?$")
_OLDER = "rocpd_op"  # of rocmProfileData, whose format rocprofv3 took its name from
# Tables of which some rows are read: their names in the file, and which rows.
_SOME_ROWS = {
    "rocpd_metadata": ("rocpd_metadata", "tag = 'schema_version'"),
    "message": ("rocpd_event", "extdata LIKE '%message%'"),
    "graph": ("rocpd_arg", f"name = '{Argument.GRAPH}'"),
}
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
        inputs = [t for t in scratch.declared_tables() if t.startswith("rocpd_") or t in _SOME_ROWS]
        for part, suffix in enumerate(parts):
            for name in (f"{table}{suffix}" for table in _NEEDED):
                if not database.columns(name):
                    raise TraceCorrupt(f"table {name} is missing; {_RECORD}")
            for table in inputs:
                name, where = _SOME_ROWS.get(table, (table, "TRUE"))
                columns = database.columns(f"{name}{suffix}")
                if name == _KERNELS and columns and not {"start", "end", "agent_id"} <= columns:
                    version = scratch.rows("SELECT value FROM rocpd_metadata") or [
                        ("of no number",)
                    ]
                    raise TraceCorrupt(
                        f"table {name}{suffix} has other columns than schema 3, which this version "
                        f"of traceql reads (the file has schema {version[0][0]}); convert it with "
                        "rocpd convert --output-format csv and load that, or upgrade traceql"
                    )
                # Not even the scratch database gets the arguments, which may hold secrets.
                more = ", program(command) AS command" if name == _PROCESSES else ""
                select = f"* REPLACE ({part} AS part{more})"
                scratch.fill(database, table, source=f"{name}{suffix}", select=select, where=where)
            if not scratch.rows(f"SELECT 1 FROM {_PROCESSES} WHERE part = {part}"):
                raise TraceCorrupt(f"table {_PROCESSES}{suffix} names no process; {_RECORD}")
    scratch.run(Path(__file__).with_name("rocpd.sql"))


def _unknown(tables: list[str]) -> str:
    if _OLDER in tables:
        return (
            "is a database of rocmProfileData (rpd), another format of this name; convert it with "
            "its rpd2tracing.py and load the JSON, or record with rocprofv3"
        )
    return f"is an SQLite database without the tables of rocprofv3 ({_PROCESSES}); {_RECORD}"
