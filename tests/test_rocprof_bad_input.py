"""Damaged and hostile outputs of rocprofv3: one line that says what is wrong, or no loss."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from rocpd_like import (
    PID,
    Recorded,
    call,
    copy,
    kernel,
    marker,
    suffix,
    write_csv,
    write_json,
    write_rocpd,
)

import traceql

_ROWS = [
    marker("execute_context_0(0)_generation_1(1)", ts=1000, dur=90, correlation=1),
    call(ts=1010, dur=5, correlation=2),
    kernel("Cijk_gemm", ts=1020, dur=30, correlation=2),
    copy("DtoH", ts=1060, dur=5, correlation=3, bytes=64),
]
_PROCESS = Recorded(PID, _ROWS)
_ENDING = suffix(PID)


def rocpd(folder: Path, *statements: str) -> Path:
    """A database after these statements."""
    path = write_rocpd(folder / "in" / f"{PID}_results.db", [_PROCESS])
    with closing(sqlite3.connect(path)) as con, con:
        for one in statements:
            con.execute(one)
    return path


def tool_json(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A file, and what it holds about its process."""
    path = write_json(folder / "in" / f"{PID}_results.json", [_PROCESS])
    return path, json.loads(path.read_text())["rocprofiler-sdk-tool"][0]


def rewritten(path: Path, process: Any) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    return path


def csv(folder: Path) -> Path:
    return write_csv(folder / "in", _PROCESS)


def values(path: Path, sql: str) -> list[tuple[Any, ...]]:
    database = path.parent.parent / "run.duckdb"
    traceql.load(path, database)
    with traceql.Trace(database) as trace:
        return [tuple(row.values()) for row in trace.select(sql).rows()]


def refused(path: Path) -> str:
    """The one line of a load that fails, and leaves nothing."""
    before = sorted(path.parent.parent.rglob("*"))
    done = called("load", path, "-o", path.parent.parent / "out.duckdb")
    err = done.stderr.decode()
    assert (done.returncode, done.stdout, err.count("\n")) == (1, b"", 1), err
    assert err[:-1].isprintable()
    assert path.name in err
    assert sorted(path.parent.parent.rglob("*")) == before
    return err


@pytest.mark.parametrize("kept", [0.3, pytest.param(0.99, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_packed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_database_that_was_cut_is_told(kept: float, is_packed: bool, tmp_path: Path) -> None:
    path = rocpd(tmp_path)
    content = path.read_bytes()
    cut = content[: int(len(content) * kept)]
    path.unlink()
    path = path.with_name("cut.db.gz" if is_packed else "cut.db")
    path.write_bytes(gzip.compress(cut) if is_packed else cut)
    assert f"ends after {len(cut):,} of {len(content):,} bytes" in refused(path)


def test_changes_that_are_not_in_the_file_yet_are_told(tmp_path: Path) -> None:
    path = rocpd(tmp_path)
    path.with_name(f"{path.name}-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(28))
    assert "close the program that has it open" in refused(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f'DROP TABLE "rocpd_string{_ENDING}"', f"table rocpd_string{_ENDING} is missing"),
        (f'DELETE FROM "rocpd_info_process{_ENDING}"', "names no process"),
        (
            f'ALTER TABLE "rocpd_kernel_dispatch{_ENDING}" DROP COLUMN "start"',
            "has other columns than schema 3",
        ),
        (f'UPDATE "rocpd_kernel_dispatch{_ENDING}" SET start = -5', "below zero"),
        (f"UPDATE \"rocpd_kernel_dispatch{_ENDING}\" SET start = 'soon'", "'soon'"),
        (f'UPDATE "rocpd_region{_ENDING}" SET start = {2**63 - 1}', "no time"),
    ],
)
def test_a_database_that_cannot_be_read_is_told(statement: str, said: str, tmp_path: Path) -> None:
    views = [f'DROP VIEW "{name}"' for name in ("rocpd_string", "rocpd_kernel_dispatch")]
    assert said in refused(rocpd(tmp_path, *views, statement))


def test_the_older_format_of_this_name_is_told(tmp_path: Path) -> None:
    path = tmp_path / "in" / "trace.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE rocpd_op (id INTEGER)")
    assert "rocmProfileData" in refused(path)


_TABLES = ("kernel_dispatch", "region", "event", "arg", "info_agent", "info_kernel_symbol")


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [*_TABLES, "info_agent", "info_kernel_symbol", "track", "pmc_event"]
)
def test_a_table_that_is_absent_counts_as_empty(table: str, tmp_path: Path) -> None:
    views = [f'DROP VIEW "{name}"' for name in (f"rocpd_{table}",)]
    path = rocpd(tmp_path, *views, f'DROP TABLE "rocpd_{table}{_ENDING}"')
    left = {"kernel_dispatch": 3, "memory_copy": 3, "region": 2}.get(table, len(_ROWS))
    assert values(path, "SELECT COUNT(*) FROM slice") == [(left,)]


@pytest.mark.parametrize("kind", ["rocpd", "json", "csv"])
def test_an_empty_profile_is_told(kind: str, tmp_path: Path) -> None:
    nothing = Recorded(PID, [])
    if kind == "rocpd":
        path = write_rocpd(tmp_path / "in" / "1_results.db", [nothing])
    elif kind == "json":
        path = write_json(tmp_path / "in" / "1_results.json", [nothing])
    else:
        path = csv(tmp_path)
        for other in path.parent.iterdir():
            other.write_text(other.read_text().splitlines(keepends=True)[0])
    assert "holds no events" in refused(path)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.2, 0.99])
def test_json_that_was_cut_is_told(kept: float, tmp_path: Path) -> None:
    path, _ = tool_json(tmp_path)
    text = path.read_bytes()
    path.write_bytes(text[: int(len(text) * kept)])
    assert "damaged JSON of rocprofv3" in refused(path)


@pytest.mark.slow
def test_a_record_that_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    path, process = tool_json(tmp_path)
    records = process["buffer_records"]["kernel_dispatch"]
    records.append(records[0] | {"start_timestamp": "soon"})
    records.append(records[0] | {"start_timestamp": 0, "end_timestamp": 0})
    rows = values(
        rewritten(path, process),
        "SELECT check_name, value FROM ledger WHERE ok IS FALSE AND check_name LIKE 'records%' "
        "UNION ALL SELECT 'kernels', COUNT(*) FROM kernel WHERE kind = 'kernel' ORDER BY ALL",
    )
    expected = [("kernels", 1), ("records that cannot be read", 1), ("records without times", 1)]
    assert rows == expected


@pytest.mark.slow
@pytest.mark.parametrize(("time", "said"), [(-1, "below zero"), (2**63, "no integer of 64 bits")])
def test_times_that_cannot_be_in_json_are_told(time: int, said: str, tmp_path: Path) -> None:
    path, process = tool_json(tmp_path)
    process["buffer_records"]["hip_api"][0]["start_timestamp"] = time
    assert said in refused(rewritten(path, process))


_CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "text before the header": (lambda text: "model loaded\n" * 3 + text, "its header is in line 4"),
    "semicolons": (lambda text: text.replace(",", ";"), "not separated by commas"),
    "thousands": (lambda text: text.replace(",1020,", ',"1,020",'), "'1,020'"),
    "rounded": (lambda text: text.replace(",1020,", ',"1.02E+03",'), "'1.02E+03'"),
    "below zero": (lambda text: text.replace(",1020,", ",-1020,"), "below zero"),
    "cut": (lambda text: text[:-3], "ends within a line"),
    "empty": (lambda _: "", "empty file"),
    "nothing but a header": (lambda text: text.split("\n", 1)[0], "ends in its header"),
    "no header": (lambda text: text.split("\n", 1)[1], "which is no header of rocprofv3"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_csv_that_another_program_changed_is_told(change: str, tmp_path: Path) -> None:
    path = csv(tmp_path)
    changed, said = _CHANGES[change]
    path.write_text(changed(path.read_text()))
    assert said in refused(path)
