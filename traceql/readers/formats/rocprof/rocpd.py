"""Reads a database of rocprofv3 (rocpd): an SQLite file with the tables of one or more processes.

The names of its tables end with the id of the process that wrote them; a file that several were
merged into has the tables of each. Ids refer to rows of the same set of tables.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats.rocprof.forms import Form
from traceql.readers.formats.rocprof.recording import Agent, Process, Recording
from traceql.readers.formats.rocprof.rocpd_events import RocpdEvents
from traceql.readers.sqlite_file import SqliteFile, connected

_KERNELS = "rocpd_kernel_dispatch"
_PROCESSES = "rocpd_info_process"
_SUFFIX = re.compile(rf"(?:{_KERNELS}|{_PROCESSES})(?P<suffix>_\w+)?$")
_NEEDED = ("rocpd_string", _PROCESSES)
_OLDER = "rocpd_op"  # of rocmProfileData, whose format rocprofv3 took its name from
_READ_VERSION = 3
_RECORD = "record again with rocprofv3 --output-format rocpd"


def read_rocpd(path: Path) -> Recording:
    """The processes of a database.

    Raises:
        TraceCorrupt: the file is damaged, or has another schema.
        NotATrace: it has no processes of rocprofv3.
    """
    with connected(path) as con:
        database = SqliteFile(con)
        sets = _suffixes(database)
        if not sets:
            raise NotATrace(_unknown(database))
        processes = [one for suffix in sets for one in _processes(database, suffix)]
        return Recording(Form.ROCPD, processes, _version(database, sets[0]))


def _suffixes(database: SqliteFile) -> list[str]:
    """How the names of each set of tables end."""
    found = {match["suffix"] or "" for t in database.tables() if (match := _SUFFIX.match(t))}
    return sorted(found)


def _unknown(database: SqliteFile) -> str:
    if database.has(_OLDER):
        return (
            "is a database of rocmProfileData (rpd), another format of this name; convert it with "
            "its rpd2tracing.py and load the JSON, or record with rocprofv3"
        )
    return f"is an SQLite database without the tables of rocprofv3 ({_PROCESSES}); {_RECORD}"


def _version(database: SqliteFile, suffix: str) -> str | None:
    table = f"rocpd_metadata{suffix}"
    if not database.has(table, "tag", "value"):
        return None
    found = database.value(f"SELECT value FROM \"{table}\" WHERE tag = 'schema_version'")
    return None if found is None else str(found)


def _processes(database: SqliteFile, suffix: str) -> Iterator[Process]:
    version = _version(database, suffix)
    for table in _NEEDED:
        if not database.has(f"{table}{suffix}"):
            raise TraceCorrupt(f"table {table}{suffix} is missing; {_RECORD}")
    _require_schema(database, suffix, version)
    names = _process_names(database, suffix)
    if not names:
        raise TraceCorrupt(f"table {_PROCESSES}{suffix} names no process; {_RECORD}")
    agents = _agents(database, suffix)
    for number, (pid, name) in names.items():
        events = RocpdEvents(database, suffix, number if len(names) > 1 else None, agents)
        yield events.process(pid, name)


def _require_schema(database: SqliteFile, suffix: str, version: str | None) -> None:
    """Raises TraceCorrupt if the kernels have no times, as in a schema that is not known."""
    table = f"{_KERNELS}{suffix}"
    if database.has(table) and not database.has(table, "start", "end", "agent_id", "kernel_id"):
        raise TraceCorrupt(
            f"table {table} has other columns than schema {_READ_VERSION}, which this version of "
            f"traceql reads (the file has schema {version or 'of no number'}); convert it with "
            "rocpd convert --output-format csv and load that, or upgrade traceql"
        )


def _process_names(
    database: SqliteFile, suffix: str
) -> Mapping[int, tuple[int | None, str | None]]:
    """The id and the program's name of each process, by its number in the set of tables.

    Of the command only the program is read: its arguments may hold secrets.
    """
    table = f"{_PROCESSES}{suffix}"
    command = database.column(table, "command")
    rows = database.rows(f'SELECT id, pid, {command} FROM "{table}" ORDER BY id')
    return {
        number: (pid if isinstance(pid, int) else None, program(command))
        for number, pid, command in rows
        if isinstance(number, int)
    }


def program(command: object) -> str | None:
    """The name of the program of a command."""
    words = command.split() if isinstance(command, str) else None
    return Path(words[0].strip("\"'[],")).name if words else None


def _agents(database: SqliteFile, suffix: str) -> Mapping[int, Agent]:
    """The processors, by their number in the set of tables."""
    table = f"rocpd_info_agent{suffix}"
    if not database.has(table, "id", "type"):
        return {}
    told = ("type_index", "product_name", "name")
    columns = ", ".join(database.column(table, name) for name in told)
    found, gpus = {}, 0
    for number, kind, index, product, name in database.rows(
        f'SELECT id, type, {columns} FROM "{table}" ORDER BY id'
    ):
        is_gpu = kind == "GPU"
        device = index if isinstance(index, int) else gpus
        gpus += is_gpu
        found[number] = Agent(device if is_gpu else None, product or name, name)
    return found
