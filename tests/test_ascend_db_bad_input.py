"""Damaged databases of Ascend's profiler: one line that says what is wrong, or little is lost."""

import gzip
import sqlite3
from collections.abc import Collection
from contextlib import closing
from itertools import product
from pathlib import Path

import ascend_db_like
import pyarrow.compute as pc
import pytest
from ascend_db_like import Row, call, computed, event, operation, row, task

from traceql.errors import TraceCorrupt
from traceql.readers.formats.ascend_db.read import prepare
from traceql.readers.relations import read_relations
from traceql.readers.tables import Remark

NAME = "ascend_pytorch_profiler_0.db"
_ROWS = (
    event("aten::mm", ts=0, dur=50, connectionId=1, inputShapes="2,3", inputDtypes="float"),
    row("CONNECTION_IDS", 1, 7),
    call("launch", ts=10, dur=5, connection=7),
    *computed("aclnnMm_MatMulV2", "MatMulV2", ts=100, dur=50, number=1, connection=7),
    task("MEMCPY_ASYNC", ts=160, dur=10, number=2, connection=8),
    row("MEMCPY_INFO", 2, 4096, 0),
    *operation("hcom_allReduce__1_0_1", [("Notify_Wait", 200, 60, 3), ("Memcpy", 260, 20, 3)],
               ts=200, dur=90, op=1),
    row("MSTX_EVENTS", 20, 30, 1, "forward", ascend_db_like.THREAD),
    row("AICORE_FREQ", 0, 5, 1800),
    row("MEMORY_RECORD", "PTA", 6, 512),
    row("OP_MEMORY", "aten::mm", 512, 3, 0, 77),
    row("OP_MEMORY", "Conv2D1", 64, 4, 0),  # of the engine of graphs: it has no stream
)  # fmt: skip
_ALL = 10  # slices of these rows


def database(folder: Path, *statements: str, rows: tuple[Row, ...] = _ROWS) -> Path:
    """A database after these statements."""
    return ascend_db_like.write(folder / NAME, *rows, then=statements)


class Read:
    """What the reader delivers of a database."""

    def __init__(self, path: Path) -> None:
        (read,) = read_relations(path, prepare)
        self.tables = read.tables
        checks = [Remark(**row) for row in read.tables["load_check"].to_pylist()]
        self.checks = {one.check_name: (one.value, one.total, one.ok) for one in checks}
        self.failed = {one.check_name for one in checks if one.ok is False}
        self.counts = tuple(self.tables[name].num_rows for name in ("slice", "activity"))


def refused(path: Path) -> str:
    """The one line of a file that cannot be read, which is not changed."""
    before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    with pytest.raises(TraceCorrupt) as error:
        list(read_relations(path, prepare))
    line = str(error.value)
    assert line.isprintable()
    assert str(path) in line
    assert {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before
    return line


def test_a_packed_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    content = database(tmp_path).read_bytes()
    packed = tmp_path / f"{NAME}.gz"
    packed.write_bytes(gzip.compress(content[:4096]))
    assert f"ends after 4,096 of {len(content):,} bytes" in refused(packed)


def test_a_database_without_events_or_tables_is_refused(tmp_path: Path) -> None:
    assert "has no events" in refused(database(tmp_path / "1", rows=()))
    assert "no table STRING_IDS" in refused(database(tmp_path / "2", "DROP TABLE STRING_IDS"))
    path = tmp_path / NAME
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE song (id INTEGER, title TEXT)")
    assert "is not a database of Ascend's profiler" in refused(path)


# What is left where a table is absent: slices, kernels.
_WITHOUT_TABLE = {
    "TASK": (_ALL - 6, 1),
    "COMMUNICATION_OP": (_ALL - 1, 2),
    "COMMUNICATION_TASK_INFO": (_ALL - 2, 3),
    "CANN_API": (_ALL - 1, 3),
    "PYTORCH_API": (_ALL - 1, 3),
    "MSTX_EVENTS": (_ALL - 1, 3),
}


_WITHOUT_EVENTS = {*ascend_db_like.COLUMNS} - {"STRING_IDS", *_WITHOUT_TABLE}


@pytest.mark.parametrize("tables", [*((name,) for name in _WITHOUT_TABLE), _WITHOUT_EVENTS])
def test_a_table_that_is_absent_counts_as_empty(tables: Collection[str], tmp_path: Path) -> None:
    found = Read(database(tmp_path, *(f"DROP TABLE {table}" for table in tables)))
    (expected,) = {_WITHOUT_TABLE.get(table, (_ALL, 3)) for table in tables}
    assert found.counts == expected


@pytest.mark.parametrize(
    ("table", "column"),
    [("STRING_IDS", "value"), ("CANN_API", "endNs"), ("TASK", "globalTaskId"), ("TASK", "endNs")],
)
def test_a_column_without_which_nothing_can_be_read_is_named(
    table: str, column: str, tmp_path: Path
) -> None:
    err = refused(database(tmp_path, f'ALTER TABLE {table} DROP COLUMN "{column}"'))
    assert f"table {table} has no column {column}" in err


def test_a_row_whose_time_is_none_is_left_out_and_reported(tmp_path: Path) -> None:
    bad = ("-5", "0", "'soon'", "NULL", "x'00ff'", "CAST(x'ff41' AS TEXT)", "1.5", str(2**63 - 1))
    damage = [
        f"UPDATE CANN_API SET {column} = {value} WHERE rowid = {row}"
        for row, (value, column) in enumerate(product(bad, ("startNs", "endNs")), start=2)
    ]
    calls = (call("launch", ts=10, dur=5, connection=7),) * len(damage)
    found = Read(database(tmp_path, *damage, rows=(*_ROWS, *calls)))
    assert found.counts == (_ALL, 3)
    assert found.failed == {"rows of CANN_API without a time"}
    assert found.checks["rows of CANN_API without a time"] == (16, 17, False)
    in_file = found.tables["count"].filter(pc.field("cat") == "cann_node")["events"].to_pylist()
    assert in_file == [17]


_NAMED = "value = 'aclnnMm_MatMulV2'"


@pytest.mark.parametrize(
    ("change", "check", "expected", "lost"),
    [
        ("MEMCPY_INFO SET size = -4096", "sizes of copies", (1, 1, False), 0),
        ("TASK SET streamId = 'abc' WHERE rowid = 1", "values of TASK", (1, 4, False), 0),
        (f"STRING_IDS SET value = x'00ff' WHERE {_NAMED}", "values of STRING_IDS", (1,), 0),
        (f"STRING_IDS SET value = NULL WHERE {_NAMED}", "values of STRING_IDS", (1,), 0),
        ("TASK SET endNs = 5 WHERE rowid = 1", "rows of TASK without a time", (1, 4, False), 1),
        (
            "COMMUNICATION_TASK_INFO SET opId = 77 WHERE rowid = 2",
            *("parts of communication", (1, 2, False), 0),
        ),
    ],
)
def test_what_is_odd_in_a_table_is_in_the_ledger(
    change: str, check: str, expected: tuple[int, ...], lost: int, tmp_path: Path
) -> None:
    found = Read(database(tmp_path, f"UPDATE {change}"))
    assert found.counts[0] == _ALL - lost
    assert found.failed == {check}
    assert found.checks[check][: len(expected)] == expected
    assert pc.min(found.tables["slice"]["dur"]).as_py() >= 0


def test_only_allocations_of_torch_npu_are_loaded(tmp_path: Path) -> None:
    found = Read(database(tmp_path))
    assert found.tables["instant"].num_rows == 1
    assert found.checks["allocations of other allocators"] == (0, 1, None)


def kernels(found: Read) -> list[tuple[str, int, int]]:
    """The name, the start and the duration of each kernel."""
    rows = found.tables["slice"].filter(pc.field("cat") == "kernel").select(["name", "ts", "dur"])
    return [
        (row["name"], row["ts"] - ascend_db_like.START_NS, row["dur"]) for row in rows.to_pylist()
    ]


_UNDESCRIBED = "compute tasks without a description"


@pytest.mark.parametrize("kind", ["KERNEL_MIX_AIC", "AI_CORE", "AI_CPU"])
def test_compute_tasks_without_a_description_are_kernels_and_fail_the_ledger(
    kind: str, tmp_path: Path
) -> None:
    odd = task(kind, ts=400, dur=20, number=50, connection=80)
    found = Read(database(tmp_path, rows=(*_ROWS, odd)))
    assert kernels(found) == [("aclnnMm_MatMulV2", 100, 50), (kind, 400, 20)]
    assert (found.checks[_UNDESCRIBED], found.failed) == ((1, 2, False), {_UNDESCRIBED})


def test_rows_that_enclose_others_are_no_kernels(tmp_path: Path) -> None:
    """One is around a task of a mixed kernel, one around an operation of communication."""
    rows = (
        *_ROWS,
        task("KERNEL_AICORE", ts=400, dur=20, number=50, taskId=9),
        task("MIX_AIV", ts=401, dur=18, number=51, taskId=9, contextId=0),
        task("AI_CORE", ts=199, dur=92, number=52, connection=1001, streamId=4),
    )
    found = Read(database(tmp_path, rows=rows))
    assert kernels(found) == [("aclnnMm_MatMulV2", 100, 50), ("MIX_AIV", 401, 18)]
    assert found.checks[_UNDESCRIBED] == (1, 2, False)
