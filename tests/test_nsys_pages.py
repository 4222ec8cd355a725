"""Exports of Nsight Systems that are read from their pages give what SQLite alone gives."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import databases
import pytest
from changed_bytes import Changes, change, changes
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nsys_like import (
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    PID,
    RUNTIME,
    Row,
    call,
    global_id,
    kernel,
    nvtx,
    write,
    write_run,
)
from nsys_samples import FOLDER, content

from traceql.errors import TraceCorrupt
from traceql.reader import sqlite_pages
from traceql.reader.nsys import windows
from traceql.reader.nsys.read import read_export, read_in_processes
from traceql.reader.tables import SCHEMAS, TraceTables

_SAMPLES = sorted(FOLDER.glob("*.sqlite.gz"))
_WHOLE = 10**6  # rows of a window


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pages, "_LEAST_BYTES", 0)
    monkeypatch.setattr(sqlite_pages, "_AT_ONCE_BYTES", 1 << 13)  # so that there are many batches


def values(found: Iterator[TraceTables]) -> Any:
    """All that is read of an export, or the error."""
    try:
        return [
            (part.metadata, {name: part.tables[name].to_pylist() for name in SCHEMAS})
            for part in found
        ]
    except TraceCorrupt as error:
        return str(error)


def require_same(path: Path, rows: int = _WHOLE) -> tuple[Any, int]:
    """What is read, and how many batches of it are not read by SQLite."""
    decoded = 0
    batches = sqlite_pages.Pages.batches

    def counted(*arguments: Any) -> Iterator[sqlite_pages.Batch]:
        nonlocal decoded
        for batch in batches(*arguments):
            decoded += batch.rows is not None
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "ROWS", rows)
        patch.setattr(sqlite_pages.Pages, "batches", counted)
        found = values(read_export(path))
        patch.setattr(sqlite_pages, "new_instance", lambda name: None)
        assert found == values(read_export(path))
    return found, decoded


@pytest.mark.slow
@pytest.mark.parametrize("rows", [_WHOLE, 300])
@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_recordings(sample: Path, rows: int, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(content(sample))
    found, decoded = require_same(path, rows)
    assert sum(len(tables["slice"]) for _, tables in found) > 500
    assert decoded > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", databases.OWN_SHORT)
def test_runs_as_exports(name: str, tmp_path: Path) -> None:
    found, decoded = require_same(write_run(tmp_path / "run.sqlite", databases.files(name)), 5000)
    assert decoded > 10
    assert found


@pytest.mark.slow
def test_processes_read_pages_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # processes do not know of changes
    monkeypatch.setattr(windows, "ROWS", 40_000)
    path = write(tmp_path / "run.sqlite", *_EVENTS)
    with closing(sqlite3.connect(path)) as con, con:
        for number in range(13):
            for table in (KERNEL, RUNTIME):
                con.execute(
                    f"INSERT INTO {table} (start, end, {', '.join(_COPIED[table])}) SELECT "
                    f"start + (1 << {number}) * 1000, end + (1 << {number}) * 1000, "
                    f"{', '.join(_COPIED[table])} FROM {table}"
                )
    assert path.stat().st_size > sqlite_pages._LEAST_BYTES
    found = values(read_in_processes(path, tmp_path, 4 << 30, 2))
    assert len(found) > 1
    assert found == values(read_export(path))


_COPIED = {
    KERNEL: ("deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName"),
    RUNTIME: ("eventClass", "globalTid", "correlationId", "nameId", "returnValue"),
}
_GPU = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": global_id(PID), "bytes": 16}
_SIZES: dict[str, Any] = {f"{what}{axis}": 2 for what in ("grid", "block") for axis in "XYZ"}
_EVENTS = [
    *(call(ts=ts, dur=5, correlation=ts) for ts in range(0, 300, 10)),
    *(kernel(ts=ts + 5, dur=5, correlation=ts, **_SIZES) for ts in range(0, 300, 10)),
    call("cuLaunchKernel", ts=310, dur=2, eventClass=1),
    call("backtrace", ts=310, dur=2, eventClass=8),
    nvtx("forward", ts=0, dur=50, color=7),
    nvtx("mark", ts=60, dur=0, eventType=34, end=None),
    nvtx("open", ts=70, dur=0, end=None),
    nvtx("other", ts=70, dur=0, eventType=99),
    Row(MEMCPY, {**_GPU, "start": 320, "end": 330, "copyKind": 1, "srcKind": 0, "dstKind": 2}),
    Row(MEMSET, {**_GPU, "start": 340, "end": 341, "value": 0, "memKind": 2}),
]
_ODD_VALUES = (
    st.none()
    | st.sampled_from([0, 1, -1, 2**31, -(2**31) - 1, 2**32 - 1, 2**62 + 1, 2**63 - 1, -(2**63)])
    | st.sampled_from([0.5, -1e300, "", "x", "7", b"", b"\xff"])
    | st.integers(-400, 400)
)
_ODD_COLUMNS = {
    KERNEL: [*_COPIED[KERNEL], *_SIZES, "start", "end", "gridId", "graphNodeId"],
    RUNTIME: [*_COPIED[RUNTIME], "start", "end"],
    MEMCPY: ["start", "end", "bytes", "copyKind", "srcKind", "deviceId", "srcDeviceId"],
    MEMSET: ["start", "end", "memKind", "value"],
    NVTX: ["start", "end", "eventType", "text", "textId", "domainId", "globalTid", "color"],
}


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.sampled_from(sorted(_ODD_COLUMNS)).flatmap(
            lambda table: st.tuples(
                st.just(table),
                st.dictionaries(st.sampled_from(_ODD_COLUMNS[table]), _ODD_VALUES, min_size=1),
            )
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([_WHOLE, 20]),
)
@example([(KERNEL, {"gridId": "x"})], _WHOLE)
@example([(KERNEL, {"start": None}), (RUNTIME, {"end": -(2**63)})], 20)
@example([(RUNTIME, {"start": -(2**63), "end": 2**63 - 1})], _WHOLE)
@example([(MEMCPY, {"copyKind": 77, "srcKind": None})], _WHOLE)
def test_odd_rows(tmp_path: Path, odd: list[tuple[str, Mapping[str, Any]]], rows: int) -> None:
    usual = {one.table: one.values for one in reversed(_EVENTS)}
    path = tmp_path / "run.sqlite"
    path.unlink(missing_ok=True)
    write(path, *_EVENTS, *(Row(table, {**usual[table], **told}) for table, told in odd))
    found, decoded = require_same(path, rows)
    assert decoded or isinstance(found, str)


def test_added_columns_and_absent_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_EVENTS)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"ALTER TABLE {KERNEL} RENAME COLUMN gridX TO other")
        con.execute(f"ALTER TABLE {KERNEL} ADD COLUMN gridX INTEGER DEFAULT 3")
        con.execute(f"ALTER TABLE {RUNTIME} DROP COLUMN returnValue")
    found, _ = require_same(path)
    assert [3, 2, 2] in [row["grid"] for _, tables in found for row in tables["activity"]]


_MANY = [
    event
    for n in range(200)
    for event in (
        call(ts=n * 100, dur=10, correlation=n + 1),
        kernel(ts=n * 100 + 20, dur=50, correlation=n + 1, **_SIZES),
    )
]


@pytest.mark.parametrize("rows", [_WHOLE, 100])
@pytest.mark.parametrize(
    "numbers",
    ["rowid - 90", "rowid - 1000", f"{2**63 - 1} - rowid", f"{-(2**63)} + rowid"],
    ids=["around zero", "below zero", "largest", "least"],
)
def test_rows_of_any_number(numbers: str, rows: int, tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"CREATE TABLE moved AS SELECT {numbers} AS number, * FROM {KERNEL}")
        con.execute(f"DELETE FROM {KERNEL}")
        columns = ", ".join(row[1] for row in con.execute(f"PRAGMA table_info({KERNEL})"))
        con.execute(f"INSERT INTO {KERNEL} (rowid, {columns}) SELECT number, {columns} FROM moved")
    found, decoded = require_same(path, rows)
    assert kernels(found) == [(n * 100 + 20, 50) for n in range(200)]
    assert decoded


@pytest.mark.parametrize("rows", [_WHOLE, 100])
@pytest.mark.parametrize("value", ["NULL", "100000 + rowid", "'x'"])
def test_a_column_that_is_called_rowid(value: str, rows: int, tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"CREATE TABLE other AS SELECT {value} AS rowid, * FROM {KERNEL}")
        con.execute(f"DROP TABLE {KERNEL}")
        con.execute(f"ALTER TABLE other RENAME TO {KERNEL}")
    found, decoded = require_same(path, rows)
    assert kernels(found) == [(n * 100 + 20, 50) for n in range(200)]
    assert decoded


def kernels(found: Any) -> list[tuple[int, int]]:
    """Start and duration of each kernel, in the order of time."""
    return sorted(
        (row["ts"], row["dur"])
        for _, tables in found
        for row in tables["slice"]
        if row["cat"] == "kernel"
    )


def test_a_table_of_the_file_does_not_replace_the_schedule(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE SCHED_EVENTS (start, cpu, isSchedIn, globalTid, threadState)")
        con.executemany(
            "INSERT INTO SCHED_EVENTS VALUES (?, 0, ?, ?, 1)",
            [(n * 50, n % 2, global_id(PID, PID)) for n in range(100)],
        )
        con.execute("CREATE TABLE off_cpu (start, end, globalTid, threadState)")
        con.execute(f"INSERT INTO off_cpu VALUES (5, 6, {global_id(PID, PID)}, 1)")
    found, _ = require_same(path)
    (tables,) = (tables for _, tables in found)
    off = [row for row in tables["slice"] if row["cat"] == "off_cpu"]
    assert [(row["ts"], row["dur"]) for row in off] == [(n * 100, 50) for n in range(50)]


@pytest.mark.parametrize("root", ["CAST('5' AS TEXT)", "CAST('5' AS BLOB)"])
def test_a_first_page_that_is_no_number(root: str, tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("PRAGMA writable_schema = ON")
        con.execute(f"UPDATE sqlite_master SET rootpage = {root} WHERE name = '{KERNEL}'")
    require_same(path)


def test_a_fraction_of_a_ns_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"UPDATE {KERNEL} SET end = end + 0.5 WHERE start = 520")
    found, _ = require_same(path)
    assert "column dur has the value '50.5', which is no int64" in found


def test_a_file_that_is_written_meanwhile_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "ROWS", 100)
        parts = read_export(path)
        next(parts)
        with closing(sqlite3.connect(path)) as con, con:
            con.execute("INSERT INTO META_DATA_CAPTURE VALUES ('x', 'y')")
        with pytest.raises(TraceCorrupt, match="changed while it was read"):
            list(parts)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes(most=3), st.sampled_from([_WHOLE, 20]))
def test_changed_bytes(tmp_path: Path, wanted: Changes, rows: int) -> None:
    path = tmp_path / "run.sqlite"
    if not (original := tmp_path / "original.sqlite").exists():
        write(original, *_EVENTS)
        with closing(sqlite3.connect(original)) as con:
            con.execute("PRAGMA page_size = 512")
            con.execute("VACUUM")
    changed = bytearray(original.read_bytes())
    change(changed, 512, wanted)
    path.write_bytes(changed)
    if has_whole_cells(path):
        require_same(path, rows)
    else:
        values(read_export(path))


def has_whole_cells(path: Path) -> bool:
    """Whether rows end in their pages; else SQLite reads what is behind a page in its memory."""
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA cell_size_check = ON")
        try:
            for table in _ODD_COLUMNS:
                con.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):  # that of an error message
            return False
    return True
