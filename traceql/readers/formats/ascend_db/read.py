"""Reads a database of Ascend's profiler: leaves the relations of its rank in a scratch database.

The declared types of columns are not reliable: starts of PyTorch's events are texts. So every value
is read by its own type, and what has another one counts as NULL. The table of metadata also holds
a part of the program's environment: only what is named here is read of it.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats.ascend.job_checks import Statement, run_common, state
from traceql.readers.formats.ascend_db.job import Job
from traceql.readers.formats.ascend_db.names import ANALYSIS, EVENTS, is_profile, is_summary
from traceql.readers.scratch import Scratch
from traceql.readers.sqlite_container import SqliteContainer, expression, opened_sqlite
from traceql.util.text import identifier

_SQL = Path(__file__).parent
_REMAKE = "analyse the recording again with torch_npu.profiler.profiler.analyse, or msprof --export"
_TIMES = frozenset({"timestamp", "allocationTime", "releaseTime"})  # and all that end in Ns
_TIME = (
    "CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'null' THEN NULL WHEN 'text' THEN CASE "
    "WHEN {0} NOT GLOB '*[^0-9]*' AND length({0}) BETWEEN 1 AND 19 THEN CAST({0} AS INTEGER) "
    "ELSE -1 END ELSE -1 END"
)
_FORMS = {
    pa.int64(): "CASE WHEN typeof({0}) = 'integer' THEN {0} END",
    pa.float64(): "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
}
# Tables that are read elsewhere, or that MindStudio Insight leaves in a database that it opened.
_KNOWN = frozenset({"META_DATA", "RANK_DEVICE_MAP", "NPU_INFO", "HOST_INFO", "SESSION_TIME_INFO"})
_OF_VIEWER = frozenset({"status_info", "connectionCats"})
_LISTED = 20  # tables


def prepare(path: Path, scratch: Scratch) -> None:
    """Leaves the relations of the rank that a database is of.

    Raises:
        TraceCorrupt: the file is damaged, has no events, or is another SQLite database.
    """
    with opened_sqlite(path, scratch.folder, remake=_REMAKE, expression=_expression) as database:
        if is_summary(database.tables) and not is_profile(database.tables):
            raise NotATrace(
                "is what was made from a profile, not a profile; load "
                "ascend_pytorch_profiler_*.db beside it"
            )
        if not is_profile(database.tables):
            raise NotATrace(
                "is not a database of Ascend's profiler (no table STRING_IDS with texts, or none "
                f"of its tables with events); {_REMAKE}"
            )
        scratch.run(_SQL / "inputs.sql")
        inputs = scratch.declared_tables()
        for table in inputs:
            scratch.fill(database, table)
        scratch.create("input_column", [_counted(database, scratch, inputs)])
        damaged = _fill_analysis(path.with_name(ANALYSIS), scratch)
        run_common(scratch, "db")
        scratch.run(_SQL / "ascend_db.sql")
        if not scratch.rows("SELECT 1 FROM event LIMIT 1"):
            rows = sum(database.rows(table) for table in EVENTS.intersection(database.tables))
            raise TraceCorrupt(
                f"none of its {rows:,} rows with events has a time; {_REMAKE}"
                if rows
                else "has no events: nothing ran while it was recorded, or it was not analysed to "
                "the end"
            )
        scratch.run(_SQL / "statements.sql")
        ((largest,),) = scratch.rows("FROM largest_group")
        job = Job(database, path, damaged, largest)
        state(scratch, job.statements())
        state(scratch, _statements(database, scratch, {*_KNOWN, *_OF_VIEWER, *inputs}))
    scratch.con.execute("INSERT INTO rank VALUES (0, $1)", [json.dumps(job.metadata)])


def _expression(column: str, type_: pa.DataType) -> str:
    """A column as SQL: a time, or NULL where a value is of another type."""
    if type_ == pa.int64() and (column.endswith("Ns") or column in _TIMES):
        return _TIME.format(identifier(column))
    form = _FORMS.get(type_)
    return form.format(identifier(column)) if form else expression(column, type_)


def _counted(database: SqliteContainer, scratch: Scratch, tables: Sequence[str]) -> pa.Table:
    """The cells with a value in each column that is read: in the file, and as they were read."""
    found = []
    declared = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = $1"
    for table in tables:
        there = database.columns(table)
        present = [column for column in scratch.rows(declared, [table]) if column[0] in there]
        if present:
            counts = ", ".join(f"COUNT({identifier(name)})" for name, _ in present)
            sql = f"SELECT COUNT(*), {counts} FROM {identifier(table)}"
            (rows, *filled), (_, *read) = database.query(sql)[0], scratch.rows(sql)[0]
            for (name, type_), *cells in zip(present, filled, read, strict=True):
                found.append((table, rows, name, type_, *cells))
    names = ("table_name", "table_rows", "column_name", "type", "filled", "read")
    return pa.table(dict(zip(names, zip(*found, strict=True), strict=True)))


def _fill_analysis(path: Path, scratch: Scratch) -> list[str]:
    """Reads the sums that torch_npu left beside a profile; a sentence if the file is damaged."""
    if not path.is_file():
        return []
    (folder := scratch.folder / "analysis").mkdir()
    try:
        with opened_sqlite(path, folder, expression=_expression) as analysis:
            for table in ("StepTraceTime", "CommAnalyzerTime"):
                scratch.fill(analysis, table)
    except (TraceCorrupt, OSError) as error:
        with suppress(duckdb.TransactionException):  # if no table was being filled
            scratch.con.rollback()
        return [f"{ANALYSIS}: {error}"]
    return []


def _statements(
    database: SqliteContainer, scratch: Scratch, known: Collection[str]
) -> Iterator[Statement]:
    """Names that are not what the file has, or that it does not have; tables that are not read."""
    odd = "SELECT COUNT(*) FROM STRING_IDS WHERE typeof(value) <> 'text' OR typeof(id) <> 'integer'"
    ((values,),), texts = database.query(odd), database.rows("STRING_IDS")
    if values:
        note = "values that are not text, so that what they name has no name; all texts of names"
        yield "values of STRING_IDS", values, texts, False, note
    sql = "SELECT CAST(value AS BLOB) FROM STRING_IDS WHERE id = ?"
    suspects = scratch.rows("SELECT id, value FROM text WHERE contains(value, '\ufffd')")
    altered = [n for n, text in suspects if database.query(sql, (n,))[0][0] != text.encode()]
    if altered:
        yield "texts that are not UTF-8", len(altered), texts, None, ""
    others = (
        (f"table {name[:60]}", 0, rows, None, "")
        for name, kind in sorted(database.tables.items())
        if kind == "table" and name not in known and not name.startswith(("ENUM_", "sqlite_"))
        if (rows := database.rows(name))
    )
    yield from islice(others, _LISTED)
