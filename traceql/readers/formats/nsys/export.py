"""Reads an export of Nsight Systems, or a report by way of its tool, into the relations."""

import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats.nsys import REPORT, TEXTS, is_part
from traceql.readers.formats.nsys.parquet_folder import ParquetFolder
from traceql.readers.formats.nsys.payloads import payloads
from traceql.readers.redaction import redacted
from traceql.readers.scratch import Scratch
from traceql.readers.sqlite_container import SqliteContainer, opened_sqlite

_REMAKE = "make the file again with nsys export --type sqlite"
_FOLDER = Path(__file__).parent
_OTHER = (
    "is an SQLite database, but neither of rocprofv3 or Ascend nor an export of Nsight Systems (no "
    "table StringIds with texts); make one with nsys export --type sqlite REPORT.nsys-rep"
)
_EMPTY = (
    "an export of Nsight Systems without a table of kernels, calls, ranges or other events to "
    "load; record with nsys profile -t cuda,nvtx, and export the report again"
)
# Other tables of events have a time, or a name that says so. The rest describes the job.
_TIMES = frozenset(("start", "timestamp", "rawTimestamp"))
_OF_EVENTS = ("EVENTS", "CALLCHAINS", "METRIC", "NIC_ID_MAP")  # ends of names
_ABOUT = ("ENUM_", "TARGET_INFO_", "META_DATA_", "DIAGNOSTIC_EVENT", "sqlite_")  # beginnings
_FILE_TABLE = pa.schema(
    {"name": pa.string(), "is_view": pa.bool_(), "is_read": pa.bool_(), "rows": pa.int64()}
)
# What is kept of tables that repeat the environment of the program.
_OPTIONS = ("*", "name LIKE 'EXPORT_%'")
_GRAPHS = "name LIKE '%CUDA_GRAPH_TRACE_OPTIONS:MODE' AND value IN ('Node', 'Graph')"
_KEPT = {
    "META_DATA_EXPORT": _OPTIONS,
    "EXPORT_META_DATA": _OPTIONS,
    "META_DATA_CAPTURE": ("*", _GRAPHS),
    "DIAGNOSTIC_EVENT": ("severity, redacted(text) AS text", "severity IN (2, 3)"),
    "PROCESSES": ("* REPLACE (redacted(name) AS name)", "TRUE"),
    TEXTS: ("*", "id IN (FROM used_text)"),
}


def prepare(path: Path, scratch: Scratch) -> None:
    """Leaves the relations of an export.

    Raises:
        TraceCorrupt: the file is damaged, or another SQLite database.
    """
    scratch.run(_FOLDER / "inputs.sql")
    timed = "SELECT table_name FROM duckdb_columns() WHERE column_name IN ('start', 'timestamp')"
    events = {table for (table,) in scratch.rows(timed)}
    with _opened(path, scratch.folder) as export:
        if not {"id", "value"} <= export.columns(TEXTS):
            raise NotATrace(_OTHER)
        if events.isdisjoint(export.tables):
            raise NotATrace(_EMPTY)
        for table in scratch.declared_tables():
            select, where = _KEPT.get(table, ("*", "TRUE"))
            scratch.fill(export, table, select=select, where=where)
        scratch.create("file_table", [_file_tables(export, events)])
    scratch.create("payload", payloads(scratch))
    scratch.run(_FOLDER / "nsys.sql")
    scratch.run(_FOLDER / "checks.sql")


@contextmanager
def _opened(path: Path, folder: Path) -> Iterator[SqliteContainer | ParquetFolder]:
    if is_part(path):
        yield ParquetFolder(path.parent)
        return
    file = _exported(path, folder) if path.name.endswith(REPORT) else path
    with opened_sqlite(file, folder, remake=_REMAKE) as export:
        yield export


def _exported(path: Path, folder: Path) -> Path:
    """The SQLite file that the tool makes of a report."""
    tool = shutil.which("nsys")
    if tool is None:
        raise TraceCorrupt(
            "a report of Nsight Systems, which only nsys can read, and it is not on PATH; where it "
            f"is installed, run nsys export --type sqlite {path.name}, and load the .sqlite file"
        )
    made = folder / "export.sqlite"
    options = ["export", "--type", "sqlite", "--include-blobs=true", "-o", str(made), str(path)]
    done = subprocess.run([tool, *options], capture_output=True, text=True, errors="replace")
    if done.returncode or not made.exists():
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise TraceCorrupt(f"nsys export failed ({redacted(lines[-1])})")
    return made


def _file_tables(export: SqliteContainer | ParquetFolder, read: Collection[str]) -> pa.Table:
    """All tables and views, with the numbers of rows of tables of events that are not read."""
    found = []
    for table, kind in export.tables.items():
        is_other = kind == "table" and table not in read and not table.startswith(_ABOUT)
        is_timed = table.endswith(_OF_EVENTS) or bool(_TIMES & export.columns(table))
        rows = export.rows(table) if is_other and is_timed else None
        found.append((table, kind == "view", table in read, rows))
    return pa.table([*map(list, zip(*found, strict=True))], schema=_FILE_TABLE)
