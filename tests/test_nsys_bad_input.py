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


def export(folder: Path, *statements: Statement, rows: tuple[Row, ...] = _ROWS) -> Path:
    """An export after these statements."""
    path = nsys_like.write(folder / "in" / "run.sqlite", *rows)
    with closing(sqlite3.connect(path)) as con, con:
        for one in statements:
            con.execute(*([one] if isinstance(one, str) else one))
    return path


def loaded(path: Path) -> traceql.Trace:
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


@pytest.mark.parametrize("kept", [0, 16, 4096, -1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_was_cut_is_refused(kept: int, packed: bool, tmp_path: Path) -> None:
    content = export(tmp_path).read_bytes()
    cut = content[:kept]
    name = "cut.sqlite.gz" if packed else "cut.sqlite"
    err = refused(written(tmp_path, name, gzip.compress(cut) if packed else cut))
    if not 0 <= kept < 32:  # so much of the file that it has its size
        assert f"ends after {len(cut):,} of {len(content):,} bytes" in err


def test_a_page_of_garbage_is_reported(tmp_path: Path) -> None:
    content = bytearray(export(tmp_path).read_bytes())
    content[4 * 4096 : 5 * 4096] = b"\xa5" * 4096
    assert "damaged SQLite file" in refused(written(tmp_path, "bad.sqlite", bytes(content)))


def test_another_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path, "other.sqlite", b"")
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE song (id INTEGER, title TEXT)")
    err = refused(path)
    assert "neither of rocprofv3 or Ascend" in err
    assert "nsys export --type sqlite" in err


def test_changes_that_are_not_in_the_file_yet_are_reported(tmp_path: Path) -> None:
    path = export(tmp_path)
    written(tmp_path, "run.sqlite-wal", b"\x37\x7f\x06\x82" + bytes(28))
    assert "close the program that has it open" in refused(path)


# Columns without which nothing can be read, and what is left without the table: slices, kernels.
_NEEDED = {
    KERNEL: (["start", "end", "deviceId", "globalPid"], (4, 2)),
    MEMSET: (["start", "end", "deviceId", "globalPid"], (4, 2)),
    RUNTIME: (["start", "end", "eventClass", "globalTid"], (4, 3)),
    NVTX: (["start", "end", "eventType", "globalTid"], (4, 3)),
    "TARGET_INFO_CUDA_DEVICE": ([], (_SLICES, 3)),
}


@pytest.mark.parametrize("table", _NEEDED)
def test_a_table_that_is_absent_counts_as_empty(table: str, tmp_path: Path) -> None:
    with loaded(export(tmp_path, f"DROP TABLE {table}")) as trace:
        ((slices,),) = values(trace, "SELECT COUNT(*) FROM slice")
        ((kernels,),) = values(trace, "SELECT COUNT(*) FROM kernel")
    assert (slices, kernels) == _NEEDED[table][1]


@pytest.mark.parametrize(
    ("table", "column"),
    [(t, c) for t, (columns, _) in _NEEDED.items() for c in columns] + [("StringIds", "value")],
)
def test_a_column_without_which_nothing_can_be_read_is_named(
    table: str, column: str, tmp_path: Path
) -> None:
    err = refused(export(tmp_path, f'ALTER TABLE {table} DROP COLUMN "{column}"'))
    assert table in err
    assert "nsys export --type sqlite" in err
    assert table == "StringIds" or f"no column {column}" in err


def test_all_tables_are_made_without_any_of_the_other_columns(tmp_path: Path) -> None:
    changes = []
    for table, listed in nsys_like.COLUMNS.items():
        needed, _ = _NEEDED.get(table, _NEEDED[KERNEL] if table == MEMCPY else ([], None))
        kept = ["id", "value"] if table == "StringIds" else needed or listed.split()[:1]
        others = [column for column in listed.split() if column not in kept]
        changes += [f'ALTER TABLE {table} DROP COLUMN "{column}"' for column in others]
    with loaded(export(tmp_path, *changes)) as trace:
        assert values(trace, "SELECT COUNT(*) FROM slice") == [(_SLICES,)]
        failed = values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE")
    assert ("time classified other",) in failed  # kernels have no names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"{KERNEL} SET start = 'soon'", f"{KERNEL}, row 1: column start has the value 'soon'"),
        (f"{NVTX} SET start = NULL", f"{NVTX}, row 1: column start has no value"),
        (f"{KERNEL} SET streamId = CAST(x'ff41' AS TEXT)", "\N{REPLACEMENT CHARACTER}A"),
        (f"{KERNEL} SET streamId = char(27) || '[31m' || char(10)", "'\\x1b[31m'"),
        (f"{KERNEL} SET streamId = 'KEY=hunter2'", "'KEY=...'"),
        (f'{KERNEL} SET start = {2**63 - 1}, "end" = {2**63 - 1}', "is no time"),
        (f'{KERNEL} SET "end" = {2**63 - 1}', "292 years"),
    ],
)
def test_a_value_that_cannot_be_is_reported_in_one_line(
    change: str, said: str, tmp_path: Path
) -> None:
    assert said in refused(export(tmp_path, f"UPDATE {change} WHERE rowid = 1"))


def test_an_empty_recording_is_one_rank_without_events(tmp_path: Path) -> None:
    with loaded(export(tmp_path, rows=())) as trace:
        assert values(trace, "SELECT rank, world_size FROM trace") == [(0, 1)]
        assert values(trace, "SELECT COUNT(*) FROM slice") == [(0,)]
        assert values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []


def test_an_export_without_any_table_of_events_is_refused(tmp_path: Path) -> None:
    about = ("StringIds", "META_DATA_EXPORT", "PROCESSES", "TARGET_INFO_GPU")
    tables = [table for table in nsys_like.COLUMNS if table not in about]
    path = export(tmp_path, *(f"DROP TABLE {table}" for table in tables))
    assert "nsys profile -t cuda,nvtx" in refused(path)


def test_the_rank_is_that_in_a_payload(tmp_path: Path) -> None:
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


def report_and_tool(folder: Path, script: str | None) -> tuple[Path, dict[str, str]]:
    """A report, and the environment in which `nsys` is this shell script, or absent."""
    (folder / "bin").mkdir()
    path = folder / "bin" / "nsys"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    rest = "" if script is None else f"{os.pathsep}{os.environ['PATH']}"
    return written(folder, "run.nsys-rep", b"a report"), {"PATH": f"{path.parent}{rest}"}


def test_a_report_is_exported_by_the_tool(tmp_path: Path) -> None:
    script = (
        'while [ "$1" != -o ]; do shift; done\n'
        f'test "$(cat "$3")" = "a report" && cp {export(tmp_path / "exported")} "$2"'
    )
    report, environment = report_and_tool(tmp_path, script)
    done = called("load", report, "-o", tmp_path / "run.duckdb", **environment)
    assert done.returncode == 0, done.stderr
    with traceql.open(tmp_path / "run.duckdb") as trace:
        assert values(trace, "SELECT COUNT(*) FROM slice") == [(_SLICES,)]
        ((path,),) = values(trace, "SELECT path FROM trace")
    assert Path(path).name == "run.nsys-rep"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "nsys export --type sqlite run.nsys-rep"),
        ("echo first; echo 'report is too new' >&2; exit 3", "report is too new"),
        ("exit 1", "no message"),
        ("echo 'unset HF_TOKEN=hf_abc' >&2; exit 1", "(unset HF_TOKEN=...)"),
        ('while [ "$1" != -o ]; do shift; done; echo hello > "$2"', "ends after 6"),
    ],
)
def test_a_tool_that_is_absent_or_fails_is_reported(
    script: str | None, said: str, tmp_path: Path
) -> None:
    report, environment = report_and_tool(tmp_path, script)
    assert said in refused(report, **environment)
