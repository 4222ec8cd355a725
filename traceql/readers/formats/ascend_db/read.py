"""Reads a database of Ascend's profiler: leaves the relations of its rank in a scratch database.

The declared types of columns are not reliable: starts of PyTorch's events are texts. So every value
is read by its own type, and what has another one counts as NULL. The table of metadata also holds
a part of the program's environment: only what is named here is read of it.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats import ascend
from traceql.readers.formats.ascend_db.analysis import read_analysis
from traceql.readers.formats.ascend_db.job import Job
from traceql.readers.formats.ascend_db.names import EVENTS, is_profile, is_summary
from traceql.readers.remarks import Remark, remark_table
from traceql.readers.scratch import Scratch
from traceql.readers.sqlite_container import SqliteContainer, expression, opened_sqlite
from traceql.util.text import identifier

_SQL, _SHARED_SQL = Path(__file__).parent, Path(ascend.__file__).parent
_ANEW = "analyse the recording again with torch_npu.profiler.profiler.analyse, or msprof --export"
_SUMMARY = (
    "is what was made from a profile, not a profile; load ascend_pytorch_profiler_*.db beside it"
)
_OTHER = (
    "is no database of Ascend's profiler (no table STRING_IDS with texts, or none of its tables "
    f"with events); {_ANEW}"
)
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
_KNOWN = frozenset(
    {
        *("META_DATA", "RANK_DEVICE_MAP", "NPU_INFO", "HOST_INFO", "SESSION_TIME_INFO"),
        *("status_info", "connectionCats"),
    }
)
_LISTED = 20  # tables
_INPUT = pa.schema([("table_name", pa.string()), ("table_rows", pa.int64())])
_COLUMN = pa.schema(
    [
        *(("table_name", pa.string()), ("column_name", pa.string()), ("type", pa.string())),
        *(("filled", pa.int64()), ("read", pa.int64())),  # cells with a value: in SQLite, here
    ]
)


def prepare(path: Path, scratch: Scratch) -> None:
    """Leaves the relations of the rank that a database is of.

    Raises:
        TraceCorrupt: the file is damaged, has no events, or is another SQLite database.
    """
    with opened_sqlite(path, scratch.folder, anew=_ANEW, expression=_expression) as database:
        _require_profile(database)
        scratch.run(_SQL / "inputs.sql")
        inputs = scratch.declared_tables()
        for table in inputs:
            scratch.fill(database, table)
        _count(database, scratch, inputs)
        damaged = read_analysis(path, scratch)
        scratch.run(_SHARED_SQL / "common.sql")
        scratch.run(_SQL / "ascend_db.sql")
        _require_events(scratch)
        scratch.run(_SQL / "statements.sql")
        scratch.run(_SHARED_SQL / "statements.sql")
        ((largest,),) = scratch.rows("SELECT ranks FROM largest_group")
        job = Job(database, path, damaged, largest)
        said = [
            *job.remarks(),
            *_odd_texts(database, scratch),
            *_tables_not_loaded(database, _KNOWN.union(inputs)),
        ]
    scratch.insert("statement", remark_table(said))
    scratch.con.execute("INSERT INTO rank VALUES (0, $1)", [json.dumps(job.metadata)])


def _expression(column: str, type_: pa.DataType) -> str:
    """A column as SQL: a time, or NULL where a value is of another type."""
    if type_ == pa.int64() and (column.endswith("Ns") or column in _TIMES):
        return _TIME.format(identifier(column))
    return (
        _FORMS[type_].format(identifier(column)) if type_ in _FORMS else expression(column, type_)
    )


def _require_profile(database: SqliteContainer) -> None:
    if not is_profile(database.tables):
        raise NotATrace(_SUMMARY if is_summary(database.tables) else _OTHER)


def _require_events(scratch: Scratch) -> None:
    if scratch.rows("SELECT 1 FROM event LIMIT 1"):
        return
    tables = ", ".join(f"'{table}'" for table in EVENTS)
    if rows := scratch.rows(f"SELECT SUM(table_rows) FROM input WHERE table_name IN ({tables})")[0][
        0
    ]:
        raise TraceCorrupt(f"none of its {rows:,} rows with events has a time; {_ANEW}")
    raise TraceCorrupt(
        "has no events: nothing ran while it was recorded, or it was not analysed to the end"
    )


def _count(database: SqliteContainer, scratch: Scratch, tables: Sequence[str]) -> None:
    """Makes the tables input and input_column: what SQLite counts, and what was read."""
    tables_found, columns_found = [], []
    for table in tables:
        declared = dict(
            scratch.rows(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = $1", [table]
            )
        )
        present = [name for name in declared if name in database.columns(table)]
        if not present:
            continue
        filled = ", ".join(f"COUNT({identifier(name)})" for name in present)
        sql = f"SELECT COUNT(*), {filled} FROM {identifier(table)}"
        (rows, *in_file), (_, *read) = database.query(sql)[0], scratch.rows(sql)[0]
        tables_found.append((table, rows))
        columns_found += [
            (table, name, declared[name], *cells)
            for name, *cells in zip(present, in_file, read, strict=True)
        ]
    for name, schema, rows in (
        ("input", _INPUT, tables_found),
        ("input_column", _COLUMN, columns_found),
    ):
        listed = [dict(zip(schema.names, row, strict=True)) for row in rows]
        scratch.create(name, [pa.Table.from_pylist(listed, schema)])


def _odd_texts(database: SqliteContainer, scratch: Scratch) -> Iterator[Remark]:
    """Names that are not what the file has, or that it does not have."""
    odd = "SELECT COUNT(*) FROM STRING_IDS WHERE typeof(value) <> 'text' OR typeof(id) <> 'integer'"
    ((values,),), texts = database.query(odd), database.rows("STRING_IDS")
    if values:
        yield Remark(
            "values of STRING_IDS",
            values,
            texts,
            False,
            "values that are not text, so that what they name has no name; all texts of names",
        )
    sql = "SELECT CAST(value AS BLOB) FROM STRING_IDS WHERE id = ?"
    suspects = scratch.rows(
        "SELECT id, value FROM text WHERE contains(value, '\N{REPLACEMENT CHARACTER}')"
    )
    altered = [n for n, text in suspects if database.query(sql, (n,))[0][0] != text.encode()]
    if altered:
        yield Remark(
            "texts that are not UTF-8",
            len(altered),
            texts,
            None,
            "texts of table STRING_IDS in which a replacement character stands for each odd byte; "
            "all texts",
        )


def _tables_not_loaded(database: SqliteContainer, known: Collection[str]) -> Iterator[Remark]:
    others = (
        (name, rows)
        for name, kind in sorted(database.tables.items())
        if kind == "table" and name not in known and not name.startswith(("ENUM_", "sqlite_"))
        if (rows := database.rows(name))
    )
    for name, rows in islice(others, _LISTED):
        note = "rows loaded; rows in the file (not loaded)"
        yield Remark(f"table {name[:60]}", 0, rows, None, note)
