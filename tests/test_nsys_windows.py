"""Large exports of Nsight Systems: what is read of them for each window and each rank."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from nsys_like import NVTX, PID, Row, call, kernel, nvtx, write

from traceql.readers import sqlite_file
from traceql.readers.formats.nsys import windows
from traceql.readers.formats.nsys.blocks import scanned
from traceql.readers.formats.nsys.export import opened
from traceql.readers.formats.nsys.nvtx import Nvtx
from traceql.readers.formats.nsys.read import read_export
from traceql.readers.formats.nsys.rows import Rows
from traceql.readers.formats.nsys.terms import column, is_outside
from traceql.readers.formats.nsys.windows import WHOLE, Window

_EVENTS = 300
_EACH = 1000  # instructions of SQLite


def recorded(folder: Path, *, processes: int = 1) -> Path:
    """So many calls and kernels, of processes in turn."""
    rows: list[Row] = []
    for number in range(_EVENTS):
        pid, ts = PID + number % processes, 100 * number
        rows.append(call(ts=ts, dur=10, correlation=number + 1, pid=pid))
        rows.append(kernel(ts=ts + 20, dur=50, correlation=number + 1, pid=pid))
    return write(folder / f"{processes}.sqlite", *rows)


def effort(path: Path, monkeypatch: pytest.MonkeyPatch, *, rows: int) -> tuple[int, int]:
    """How many thousand instructions SQLite needs to read an export, and the number of parts."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connect = sqlite_file._connection

    def connection(path: Path) -> sqlite3.Connection:
        con = connect(path)
        con.set_progress_handler(count, _EACH)
        return con

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "_connection", connection)
        patch.setattr(windows, "ROWS", rows)
        parts = sum(1 for _ in read_export(path))
    return counted, parts


def test_more_windows_do_not_mean_more_scans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path)
    whole, one = effort(path, monkeypatch, rows=10_000)
    split, many = effort(path, monkeypatch, rows=25)
    assert (one, many) == (1, 2 * _EVENTS // 25)
    assert split < 2 * whole


def test_blocks_of_another_time_or_rank_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "ROWS", 50)  # so that a block has two rows
    path = write(tmp_path / "run.sqlite", *(nvtx("x", ts=ts, dur=1) for ts in range(0, 100, 10)))
    with sqlite3.connect(path) as con:
        con.execute(f"UPDATE {NVTX} SET domainId = start / 40")
    rows = Rows(NVTX, (column("domainId"),), "start", kept=is_outside(column("start"), 60, 60))
    with opened(path) as export:
        (blocks,) = scanned(export, [rows])
        first = blocks.of_rank([(0,)])
        assert (first.kept, first.left_out) == (4, 0)
        assert read(export, first.condition(Window(None, 20))) == [0, 10]
        assert "_rowid_ BETWEEN 0 AND 3" in str(first.condition(Window(None, 20)))
        assert first.condition(Window(40, None)) is None
        assert blocks.of_rank([(7,)]).condition(WHOLE) is None
        second = blocks.of_rank([(1,)])
        assert (second.kept, second.left_out) == (3, 1)
        assert read(export, second.condition(WHOLE)) == [40, 50, 70]


def read(export: Any, condition: str | None) -> list[int]:
    return [ts for (ts,) in export.rows(f"SELECT start FROM {NVTX} WHERE {condition}")]


def test_arguments_of_ranges_are_those_of_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [nvtx("x", ts=10 * n, dur=5, color=n + 1) for n in range(100)]
    path = write(tmp_path / "run.sqlite", *ranges, kernel(ts=0, dur=1))
    asked: list[int] = []
    arguments = Nvtx.arguments

    def spied(nvtx: Nvtx, condition: str | None) -> dict[int, str]:
        found = arguments(nvtx, condition)
        asked.append(len(found))
        return found

    monkeypatch.setattr(Nvtx, "arguments", spied)
    monkeypatch.setattr(windows, "ROWS", 10)
    parts = list(read_export(path))
    assert sum(asked) == 100
    assert max(asked) <= 20
    slices = [row for part in parts for row in part.tables["slice"].to_pylist()]
    assert [row["args"] for row in slices if row["cat"] == "nvtx"] == [
        f'{{"color": {n + 1}}}' for n in range(100)
    ]
