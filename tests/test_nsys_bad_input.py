"""Damaged and hostile exports of Nsight Systems: one line that says what is wrong, or no loss."""

import gzip
import json
import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import nsys_like
import pytest
from command_line import called
from needed_tables import only_tables
from nsys_like import KERNEL, MEMCPY, MEMSET, NVTX, PID, RUNTIME, Row, call, global_id, kernel, nvtx

import traceql

pytestmark = pytest.mark.slow

Statement = str | tuple[str, tuple[Any, ...]]

_ON_GPU = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": global_id(PID), "bytes": 16}
_ROWS = (
    nvtx("execute_context_0(0)_generation_1(1)", ts=0, dur=50),
    call(ts=10, dur=2, correlation=7),
    kernel("gemm", ts=20, dur=5, correlation=7, gridX=2, gridY=1, gridZ=1),
    Row(MEMCPY, _ON_GPU | {"start": 40, "end": 45, "copyKind": 1, "srcKind": 1, "dstKind": 2}),
    Row(MEMSET, _ON_GPU | {"start": 50, "end": 51, "value": 0, "memKind": 2}),
    Row("PROCESSES", {"globalPid": global_id(PID), "pid": PID, "name": "python"}),
    Row("ThreadNames", {"nameId": "main", "globalTid": global_id(PID, PID)}),
    Row("TARGET_INFO_GPU", {"id": 0, "name": "NVIDIA H200", "cuDevice": 0}),
    Row("TARGET_INFO_CUDA_DEVICE", {"gpuId": 0, "cudaId": 0, "pid": PID}),
)
_SLICES = 5
_FIRST = "WHERE rowid = 1"


def export(folder: Path, *statements: Statement, rows: tuple[Row, ...] = _ROWS) -> Path:
    """An export after these statements."""
    path = nsys_like.write(folder / "in" / "run.sqlite", *rows)
    with closing(sqlite3.connect(path)) as con, con:
        for one in statements:
            con.execute(*([one] if isinstance(one, str) else one))
    return path


def loaded(path: Path, *tables: str) -> traceql.Trace:
    """The database of an export with the tables that loading fills, and these."""
    with only_tables(*tables):
        return derived(path)


def derived(path: Path) -> traceql.Trace:
    """The database of an export with all tables."""
    database = path.parent.parent / "run.duckdb"
    traceql.load(path, database)
    return traceql.Trace(database)


def values(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


def refused(path: Path, **environment: str) -> str:
    """The one line of a load that fails, and leaves nothing."""
    before = sorted(path.parent.parent.rglob("*"))
    target = path.parent.parent / "out.duckdb"
    done = called("load", path, "-o", target, **environment)
    err = done.stderr.decode()
    assert (done.returncode, done.stdout, err.count("\n")) == (1, b"", 1), err
    assert err[:-1].isprintable()
    assert path.name in err
    assert sorted(path.parent.parent.rglob("*")) == before
    return err


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    (folder / "in" / name).write_bytes(content)
    return folder / "in" / name


@pytest.mark.parametrize("kept", [0, 15, 16, 20, 99, 100, 4096, 30_000, -4096, -1])
@pytest.mark.parametrize(
    "is_packed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "packed"]
)
def test_a_file_that_was_cut_is_told(kept: int, is_packed: bool, tmp_path: Path) -> None:
    content = export(tmp_path).read_bytes()
    assert len(content) > 40_000
    cut = content[:kept]
    name = "cut.sqlite.gz" if is_packed else "cut.sqlite"
    err = refused(written(tmp_path, name, gzip.compress(cut) if is_packed else cut))
    if not 0 <= kept < 32:  # so much of the file that it tells its size
        assert f"ends after {len(cut):,} of {len(content):,} bytes" in err


@pytest.mark.parametrize("page", [1, 2, 5, 9])
def test_a_page_of_garbage_is_told(page: int, tmp_path: Path) -> None:
    content = bytearray(export(tmp_path).read_bytes())
    start = (page - 1) * 4096 or 100  # the first page begins with the head of the file
    content[start : page * 4096] = b"\xa5" * (page * 4096 - start)
    assert "damaged SQLite file" in refused(written(tmp_path, "bad.sqlite", bytes(content)))


def test_another_database_is_told_with_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path, "other.sqlite", b"")
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE song (id INTEGER, title TEXT)")
    err = refused(path)
    assert "neither of rocprofv3 or Ascend" in err
    assert "nsys export --type sqlite" in err


@pytest.mark.slow
def test_changes_that_are_not_in_the_file_yet_are_told(tmp_path: Path) -> None:
    path = export(tmp_path)
    written(tmp_path, "run.sqlite-wal", b"")  # as SQLite leaves it when all is in the file
    loaded(path).close()
    (tmp_path / "run.duckdb").unlink()
    written(tmp_path, "run.sqlite-wal", b"\x37\x7f\x06\x82" + bytes(28))
    assert "close the program that has it open" in refused(path)


# What is left where a table is absent: slices, kernels.
_WITHOUT_TABLE = {KERNEL: (4, 2), MEMCPY: (4, 2), MEMSET: (4, 2), RUNTIME: (4, 3), NVTX: (4, 3)}
_TABLES = [table for table in nsys_like.COLUMNS if table != "StringIds"]
_QUICK_TABLES = (KERNEL,)


@pytest.mark.parametrize(
    "table",
    [pytest.param(t, marks=() if t in _QUICK_TABLES else pytest.mark.slow) for t in _TABLES],
)
def test_a_table_that_is_absent_counts_as_empty(table: str, tmp_path: Path) -> None:
    with loaded(export(tmp_path, f"DROP TABLE {table}"), "kernel") as trace:
        ((slices,),) = values(trace, "SELECT COUNT(*) FROM slice")
        ((kernels,),) = values(trace, "SELECT COUNT(*) FROM kernel")
    assert (slices, kernels) == _WITHOUT_TABLE.get(table, (_SLICES, 3))


_NEEDED = {
    "StringIds": ["id", "value"],
    KERNEL: ["start", "end", "deviceId", "globalPid"],
    MEMCPY: ["start", "end", "deviceId", "globalPid"],
    MEMSET: ["start", "end", "deviceId", "globalPid"],
    RUNTIME: ["start", "end", "eventClass", "globalTid"],
    NVTX: ["start", "end", "eventType", "globalTid"],
}
_COLUMNS = [(t, column) for t, columns in nsys_like.COLUMNS.items() for column in columns.split()]
_OPTIONAL = [(t, column) for t, column in _COLUMNS if column not in _NEEDED.get(t, ())]


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, cs in _NEEDED.items() for c in cs])
def test_a_column_without_which_nothing_can_be_read_is_told(
    table: str, column: str, tmp_path: Path
) -> None:
    err = refused(export(tmp_path, f'ALTER TABLE {table} DROP COLUMN "{column}"'))
    assert table in err
    assert "nsys export --type sqlite" in err
    assert table == "StringIds" or f"no column {column}" in err


@pytest.mark.slow
@pytest.mark.parametrize("table", sorted({table for table, _ in _OPTIONAL}))
def test_all_tables_are_made_without_any_of_the_other_columns(table: str, tmp_path: Path) -> None:
    dropped = [column for other, column in _OPTIONAL if other == table]
    kept = [column for other, column in _COLUMNS if other == table and column not in dropped]
    # SQLite keeps at least one column.
    changes = [f'ALTER TABLE {table} DROP COLUMN "{c}"' for c in dropped[0 if kept else 1 :]]
    with derived(export(tmp_path, *changes)) as trace:
        assert values(trace, "SELECT COUNT(*) FROM slice") == [(_SLICES,)]
        failed = values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE")
    assert failed == ([("time classified other",)] if table == KERNEL else [])  # without names


_TOLD = {
    "text for a start": (f"UPDATE {KERNEL} SET start = 'soon'", "'soon'"),
    "text for an end": (f"UPDATE {KERNEL} SET \"end\" = 'late'", "'late'"),
    "bytes for an end": (f"UPDATE {RUNTIME} SET \"end\" = x'00ff'", "xff"),
    "no start": (f"UPDATE {NVTX} SET start = NULL", f"{NVTX}, row 1: column start has no value"),
    "no device": (f"UPDATE {KERNEL} SET deviceId = NULL", "deviceId"),
    "text for a process": (f"UPDATE {KERNEL} SET globalPid = 'abc'", "'abc'"),
    "text for a thread": (f"UPDATE {RUNTIME} SET globalTid = 'abc'", "'abc'"),
    "text for a name": (f"UPDATE {RUNTIME} SET nameId = 'abc'", "'abc'"),
    "text that is not UTF-8": (
        f"UPDATE {KERNEL} SET streamId = CAST(x'ff41' AS TEXT)", "\N{REPLACEMENT CHARACTER}A",
    ),
    "text that controls a terminal": (
        f"UPDATE {KERNEL} SET streamId = char(27) || '[31m' || char(10)", "'\\x1b[31m'",
    ),
    "text that may be a secret": (f"UPDATE {KERNEL} SET streamId = 'KEY=hunter2'", "'KEY=...'"),
    "text for blocks": (f"UPDATE {KERNEL} SET gridX = 'wide'", "'wide'"),
    "a start of 2**63-1": (
        f'UPDATE {KERNEL} SET start = {2**63 - 1}, "end" = {2**63 - 1}', "is no time",
    ),
    "a start of -2**63": (
        f'UPDATE {KERNEL} SET start = {-(2**63)}, "end" = {-(2**63)}', "is no time",
    ),
    "an end of 2**63-1": (f'UPDATE {KERNEL} SET "end" = {2**63 - 1}', "292 years"),
}  # fmt: skip


@pytest.mark.parametrize("name", _TOLD)
def test_a_value_that_is_none_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    statement, said = _TOLD[name]
    assert said in refused(export(tmp_path, f"{statement} {_FIRST}"))


@pytest.mark.slow
def test_an_empty_recording_is_one_rank_without_events(tmp_path: Path) -> None:
    with derived(export(tmp_path, rows=())) as trace:
        assert values(trace, "SELECT rank, world_size FROM trace") == [(0, 1)]
        assert values(trace, "SELECT COUNT(*) FROM slice") == [(0,)]
        assert values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []


def test_an_export_without_any_table_of_events_is_told(tmp_path: Path) -> None:
    about = ("META_DATA_EXPORT", "PROCESSES", "TARGET_INFO_GPU")
    tables = [t for t in nsys_like.COLUMNS if t != "StringIds" and t not in about]
    path = export(tmp_path, *(f"DROP TABLE {table}" for table in tables))
    assert "nsys profile -t cuda,nvtx" in refused(path)


@pytest.mark.slow
def test_a_payload_tells_the_rank(tmp_path: Path) -> None:
    """A payload of one part: two integers of 32 bits (type 5) in the layout of schema 5."""
    entries = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
    blob = struct.pack("<QQQQii", 1, 5, 8, 32, 4, 2)
    path = export(
        tmp_path,
        f"CREATE TABLE {entries} (domainId, schemaId, idx, type, name, offset)",
        f"INSERT INTO {entries} VALUES (0, 5, 0, 5, 'No. of ranks', 0), (0, 5, 1, 5, 'Rank', 4)",
        (f"UPDATE {NVTX} SET binaryData = ?", (blob,)),
    )
    with loaded(path) as run:
        ((found,),) = values(run, "SELECT args FROM slice WHERE cat = 'nvtx'")
        assert json.loads(found) == {"payload": {"No. of ranks": 4, "Rank": 2}}
        assert values(run, "SELECT rank, world_size FROM trace") == [(2, 4)]


def tool(folder: Path, script: str) -> dict[str, str]:
    """The environment in which `nsys` is this shell script."""
    (folder / "bin").mkdir()
    path = folder / "bin" / "nsys"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"}


def report(folder: Path) -> Path:
    return written(folder, "run.nsys-rep", b"a report")


def test_a_report_without_the_tool_is_told_with_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    err = refused(report(tmp_path), PATH=str(tmp_path / "bin"))
    assert "nsys export --type sqlite run.nsys-rep" in err


@pytest.mark.slow
def test_a_report_is_exported_by_the_tool(tmp_path: Path) -> None:
    exported = export(tmp_path / "exported")
    environment = tool(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done\n'
        f'test "$(cat "$3")" = "a report" && cp {exported} "$2"',
    )
    done = called("load", report(tmp_path), "-o", tmp_path / "run.duckdb", **environment)
    assert done.returncode == 0, done.stderr
    with traceql.open(tmp_path / "run.duckdb") as trace:
        assert values(trace, "SELECT COUNT(*) FROM slice") == [(_SLICES,)]
        ((path,),) = values(trace, "SELECT path FROM trace")
    assert Path(path).name == "run.nsys-rep"


_FAILING: dict[str, tuple[str, str]] = {
    "with a message": ("echo first; echo 'report is too new' >&2; exit 3", "report is too new"),
    "without one": ("exit 1", "no message"),
    "with a secret": ("echo 'unset HF_TOKEN=hf_abc' >&2; exit 1", "(unset HF_TOKEN=...)"),
    "silently": ("exit 0", "nsys export failed"),
    "by writing something else": (
        'while [ "$1" != -o ]; do shift; done; echo hello > "$2"', "ends after 6",
    ),
    "with a message that controls a terminal": (
        "printf 'a\\033[31mb\\n' >&2; exit 1", "nsys export failed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", _FAILING)
def test_a_tool_that_fails_is_told(how: str, tmp_path: Path) -> None:
    script, said = _FAILING[how]
    environment: dict[str, Any] = tool(tmp_path, script)
    assert said in refused(report(tmp_path), **environment)
