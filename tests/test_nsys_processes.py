"""Large exports of Nsight Systems, whose windows are read by several processes."""

import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from nsys_like import PID, Row, call, kernel, nvtx, write

from traceql.errors import TraceCorrupt, TraceqlError
from traceql.readers.formats.nsys import READER, windows
from traceql.readers.formats.nsys.read import read_export, read_in_processes
from traceql.readers.tables import SCHEMAS, TraceTables
from traceql.readers.ways import Way, is_streamed

_EVENTS = 200
MEMORY = 4 << 30


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "ROWS", 100)


def recorded(folder: Path, *more: Row) -> Path:
    """Calls and kernels of two processes, in ranges that go on from window to window."""
    rows: list[Row] = [nvtx("all", ts=0, dur=100 * _EVENTS)]
    for number in range(_EVENTS):
        pid, ts = PID + number % 2, 100 * number
        rows.append(call(ts=ts, dur=10, correlation=number + 1, pid=pid))
        rows.append(kernel(ts=ts + 20, dur=50, correlation=number + 1, pid=pid))
    return write(folder / "run.sqlite", *rows, *more)


def values(found: list[TraceTables]) -> list[object]:
    """What is in the tables of each part, and what is said of it."""
    return [
        (part.metadata, part.continues, {name: part.tables[name].to_pylist() for name in SCHEMAS})
        for part in found
    ]


def close(found: Iterator[TraceTables]) -> None:
    """Does not want more of it."""
    assert isinstance(found, Generator)
    found.close()


def folder_in(path: Path) -> Path:
    folder = path / "scratch"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_the_tables_are_those_of_one_process(tmp_path: Path) -> None:
    path, folder = recorded(tmp_path), folder_in(tmp_path)
    found = values(list(read_in_processes(path, folder, MEMORY, 2)))
    assert len(found) > 4
    assert found == values(list(read_export(path)))
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_as_many_processes_read_as_the_memory_allows(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    for memory, expected in ((1 << 30, 0), (1_500_000_000, 1), (MEMORY, 3)):
        found = read_in_processes(path, tmp_path, memory, 3)
        next(found)
        assert len(multiprocessing.active_children()) == expected
        close(found)


@pytest.mark.slow
def test_a_value_in_a_late_window_that_is_no_number_is_told_with_the_file(tmp_path: Path) -> None:
    late = kernel(ts=100 * _EVENTS, dur=50, correlation=_EVENTS + 1, pid=PID)
    late[1]["correlationId"] = "abc"
    path = recorded(tmp_path, late)
    with pytest.raises(TraceCorrupt, match=r"run.sqlite: column correlationId has the value 'abc'"):
        list(read_in_processes(path, folder_in(tmp_path), MEMORY, 2))
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_process_that_is_killed_is_told(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    found = read_in_processes(path, folder_in(tmp_path), MEMORY, 2)
    next(found)
    for process in multiprocessing.active_children():
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(TraceqlError, match=r"run.sqlite: a reading process was killed"):
        list(found)


@pytest.mark.slow
def test_a_reader_that_is_left_ends_its_processes(tmp_path: Path) -> None:
    found = read_in_processes(recorded(tmp_path), folder_in(tmp_path), MEMORY, 2)
    next(found)
    assert len(multiprocessing.active_children()) == 2
    close(found)
    assert not multiprocessing.active_children()


def test_large_exports_are_read_so(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    for size, wanted in ((199 << 20, False), (200 << 20, True)):
        with path.open("wb") as file:
            file.truncate(size)
        assert is_streamed(Way.AUTO, path, READER.streamed_bytes) is wanted
