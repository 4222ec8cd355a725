"""Damaged databases of Ascend's profiler: one line that says what is wrong, or little is lost."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import ascend_db_like
import pyarrow.compute as pc
import pytest
from ascend_db_like import START_NS, Row, Statement, call, computed, event, operation, task

from traceql.errors import TraceCorrupt
from traceql.readers.formats.ascend_db.read import prepare
from traceql.readers.relations import read_relations
from traceql.readers.remarks import Remark

NAME = "ascend_pytorch_profiler_0.db"
_ROWS = (
    event("aten::mm", ts=0, dur=50, connectionId=1, inputShapes="2,3", inputDtypes="float"),
    Row("CONNECTION_IDS", {"id": 1, "connectionId": 7}),
    call("launch", ts=10, dur=5, connection=7),
    *computed("aclnnMm_MatMulV2", "MatMulV2", ts=100, dur=50, number=1, connection=7),
    task("MEMCPY_ASYNC", ts=160, dur=10, number=2, connection=8),
    Row("MEMCPY_INFO", {"globalTaskId": 2, "size": 4096, "memcpyOperation": 0}),
    *operation("hcom_allReduce__1_0_1", [("Notify_Wait", 200, 60, 3), ("Memcpy", 260, 20, 3)],
               ts=200, dur=90, op=1),
    Row("MSTX_EVENTS", {"startNs": 20, "endNs": 30, "eventType": 1, "message": "forward",
                        "globalTid": 100 << 32 | 101}),
    Row("AICORE_FREQ", {"deviceId": 0, "timestampNs": 5, "freq": 1800}),
    Row("MEMORY_RECORD", {"component": "PTA", "timestamp": 6, "totalAllocated": 512}),
    Row("OP_MEMORY", {"name": "aten::mm", "size": 512, "allocationTime": 3, "deviceId": 0,
                      "streamPtr": 77}),
)  # fmt: skip
# Of each table of events.
_SLICES = {
    "PYTORCH_API": 1,
    "CANN_API": 1,
    "TASK": 4,
    "COMMUNICATION_OP": 1,
    "COMMUNICATION_TASK_INFO": 2,
    "MSTX_EVENTS": 1,
}
_ALL = sum(_SLICES.values())
_FIRST = "WHERE rowid = 1"


def database(folder: Path, *statements: Statement, rows: tuple[Row, ...] = _ROWS) -> Path:
    """A database after these statements."""
    return ascend_db_like.write(folder / "in" / NAME, *rows, then=statements)


class Read:
    """What the reader delivers of a database."""

    def __init__(self, path: Path) -> None:
        (read,) = read_relations(path, prepare)
        self.tables = read.tables
        said = [Remark(**row) for row in read.tables["load_check"].to_pylist()]
        self.remarks = {one.check_name: one for one in said}

    @property
    def counts(self) -> tuple[int, int]:
        """The number of slices and of activities."""
        return self.tables["slice"].num_rows, self.tables["activity"].num_rows

    @property
    def marked(self) -> int:
        """The number of slices and of marks, as which ranges of no kind count."""
        marks = self.tables["instant"]["cat"].to_pylist().count("mstx")
        return self.counts[0] + int(marks)

    @property
    def failures(self) -> set[str]:
        return {name for name, one in self.remarks.items() if one.ok is False}


def refused(path: Path) -> str:
    """The one line of a file that cannot be read, which is not changed."""
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(TraceCorrupt) as told:
        list(read_relations(path, prepare))
    line = str(told.value)
    assert line.isprintable()
    assert str(path) in line
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before
    return line


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    (folder / "in" / name).write_bytes(content)
    return folder / "in" / name


@pytest.mark.parametrize("kept", [1, 15, 16, 99, 4096, -4096, -1])
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "packed"])
def test_a_file_that_was_cut_is_told(kept: int, is_packed: bool, tmp_path: Path) -> None:
    content = database(tmp_path).read_bytes()
    cut = content[:kept]
    name = f"{NAME}.gz" if is_packed else NAME
    err = refused(written(tmp_path, name, gzip.compress(cut) if is_packed else cut))
    if not 0 <= kept < 32:  # so much of the file that it tells its size
        assert f"ends after {len(cut):,} of {len(content):,} bytes" in err


def test_a_negative_size_of_a_copy_is_unknown_and_told(tmp_path: Path) -> None:
    found = Read(database(tmp_path, "UPDATE MEMCPY_INFO SET size = -4096"))
    assert set(found.tables["activity"]["bytes"].to_pylist()) == {None}
    told = found.remarks["sizes of copies"]
    assert (told.value, told.total, told.ok) == (1, 1, False)


@pytest.mark.parametrize("page", [1, 2, 9])
def test_a_page_of_garbage_is_told(page: int, tmp_path: Path) -> None:
    content = bytearray(database(tmp_path).read_bytes())
    start = (page - 1) * 4096 or 100  # the first page begins with the head of the file
    content[start : page * 4096] = b"\xa5" * (page * 4096 - start)
    refused(written(tmp_path, NAME, bytes(content)))


@pytest.mark.parametrize(
    ("ending", "content"),
    [("wal", b"\x37\x7f\x06\x82" + bytes(28)), ("journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")],
)
def test_changes_that_are_not_in_the_file_yet_are_told(
    ending: str, content: bytes, tmp_path: Path
) -> None:
    path = database(tmp_path)
    written(tmp_path, f"{NAME}-{ending}", b"")  # as SQLite leaves it when all is in the file
    assert Read(path).counts == (_ALL, 3)
    written(tmp_path, f"{NAME}-{ending}", content)
    assert "close the program that has it open" in refused(path)


def test_an_empty_profile_is_told(tmp_path: Path) -> None:
    assert "has no events" in refused(database(tmp_path, rows=()))


def test_a_database_without_its_tables_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, NAME, b"")
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE song (id INTEGER, title TEXT)")
    assert "no database of Ascend's profiler" in refused(path)
    assert "no table STRING_IDS" in refused(database(tmp_path / "2", "DROP TABLE STRING_IDS"))


# What is left where a table is absent: slices, kernels.
_WITHOUT_TABLE = {
    "TASK": (_ALL - 6, 1),
    "COMPUTE_TASK_INFO": (_ALL, 3),
    "COMMUNICATION_OP": (_ALL - 1, 2),
    "COMMUNICATION_TASK_INFO": (_ALL - 2, 3),
    "CANN_API": (_ALL - 1, 3),
    "PYTORCH_API": (_ALL - 1, 3),
    "MSTX_EVENTS": (_ALL - 1, 3),
}
_TABLES = [table for table in ascend_db_like.COLUMNS if table != "STRING_IDS"]


@pytest.mark.parametrize("table", _TABLES)
def test_a_table_that_is_absent_counts_as_empty(table: str, tmp_path: Path) -> None:
    found = Read(database(tmp_path, f"DROP TABLE {table}"))
    assert found.counts == _WITHOUT_TABLE.get(table, (_ALL, 3))


_NEEDED = {
    "STRING_IDS": ["id", "value"],
    "PYTORCH_API": ["startNs", "endNs"],
    "CANN_API": ["startNs", "endNs"],
    "TASK": ["startNs", "endNs", "globalTaskId"],
    "COMPUTE_TASK_INFO": ["globalTaskId"],
    "COMMUNICATION_OP": ["startNs", "endNs"],
    "COMMUNICATION_TASK_INFO": ["globalTaskId"],
    "MSTX_EVENTS": ["startNs", "endNs"],
}


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, cs in _NEEDED.items() for c in cs])
def test_a_column_without_which_nothing_can_be_read_is_told(
    table: str, column: str, tmp_path: Path
) -> None:
    err = refused(database(tmp_path, f'ALTER TABLE {table} DROP COLUMN "{column}"'))
    assert table in err
    assert column in err


_TIMES = {
    "below zero": "-5",
    "zero": "0",
    "a text": "'soon'",
    "nothing": "NULL",
    "bytes": "x'00ff'",
    "no UTF-8": "CAST(x'ff41' AS TEXT)",
    "2**63 - 1": str(2**63 - 1),
    "a fraction": "1.5",
}


@pytest.mark.parametrize("value", _TIMES)
@pytest.mark.parametrize("column", ["startNs", "endNs"])
def test_a_row_whose_time_is_none_is_left_out_and_told(
    value: str, column: str, tmp_path: Path
) -> None:
    found = Read(database(tmp_path, f"UPDATE CANN_API SET {column} = {_TIMES[value]} {_FIRST}"))
    assert found.counts == (_ALL - 1, 3)
    (told,) = (found.remarks[name] for name in found.failures)
    assert told[:4] == ("rows of CANN_API without a time", 1, 1, False)
    in_file = found.tables["count"].filter(pc.field("cat") == "cann_node")["events"].to_pylist()
    assert in_file == [1]


def test_a_row_that_ends_before_it_starts_is_left_out_and_told(tmp_path: Path) -> None:
    swapped = f"UPDATE TASK SET startNs = endNs, endNs = startNs {_FIRST}"
    found = Read(database(tmp_path, swapped))
    assert found.counts == (_ALL - 1, 2)
    assert found.remarks["rows of TASK without a time"][1:4] == (1, 4, False)
    assert pc.min(found.tables["slice"]["dur"]).as_py() >= 0


def test_only_allocations_of_torch_npu_are_loaded(tmp_path: Path) -> None:
    """Those of the engine of graphs have no stream, and a total of their own."""
    row = Row("OP_MEMORY", {"name": "Conv2D1", "size": 64, "allocationTime": 4, "deviceId": 0})
    found = Read(database(tmp_path, rows=(*_ROWS, row)))
    assert found.tables["instant"].num_rows == 1
    assert found.remarks["allocations of other allocators"][1:4] == (0, 1, None)


def test_values_of_another_type_are_in_the_ledger(tmp_path: Path) -> None:
    path = database(tmp_path, f"UPDATE TASK SET streamId = 'abc' {_FIRST}")
    found = Read(path)
    assert found.counts == (_ALL, 3)
    assert found.remarks["values of TASK"][1:4] == (1, 4, False)


@pytest.mark.parametrize("value", ["x'00ff'", "NULL"])
def test_names_that_are_no_texts_fail_the_ledger(value: str, tmp_path: Path) -> None:
    where = "WHERE value = 'aclnnMm_MatMulV2'"
    found = Read(database(tmp_path, f"UPDATE STRING_IDS SET value = {value} {where}"))
    assert found.counts == (_ALL, 3)
    assert found.failures == {"values of STRING_IDS"}
    assert found.remarks["values of STRING_IDS"].value == 1


def test_rows_that_refer_to_nothing_are_told(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        "UPDATE COMMUNICATION_TASK_INFO SET globalTaskId = 999 WHERE rowid = 1",
        "UPDATE COMMUNICATION_TASK_INFO SET opId = 77 WHERE rowid = 2",
        "UPDATE COMPUTE_TASK_INFO SET globalTaskId = 998",
    )
    found = Read(path)
    assert found.counts == (_ALL - 1, 3)
    assert found.failures == {
        "rows of COMMUNICATION_TASK_INFO without a time",
        "compute tasks without a task",
        "compute tasks without a description",
        "parts of communication",
    }


def kernels(found: Read) -> list[tuple[str, int, int]]:
    """The name, the start and the duration of each kernel."""
    rows = found.tables["slice"].filter(pc.field("cat") == "kernel").select(["name", "ts", "dur"])
    return [(row["name"], row["ts"] - START_NS, row["dur"]) for row in rows.to_pylist()]


_UNDESCRIBED = "compute tasks without a description"


@pytest.mark.parametrize(
    "kind", ["KERNEL_AICORE", "KERNEL_MIX_AIC", "AI_CORE", "AI_VECTOR_CORE", "MIX_AIV", "AI_CPU"]
)
def test_compute_tasks_without_a_description_are_kernels_and_fail_the_ledger(
    kind: str, tmp_path: Path
) -> None:
    odd = task(kind, ts=400, dur=20, number=50, connection=80)
    found = Read(database(tmp_path, rows=(*_ROWS, odd)))
    assert kernels(found) == [("aclnnMm_MatMulV2", 100, 50), (kind, 400, 20)]
    assert found.remarks[_UNDESCRIBED][1:4] == (1, 2, False)
    assert found.failures == {_UNDESCRIBED}


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
    assert found.remarks[_UNDESCRIBED][1:4] == (1, 2, False)
