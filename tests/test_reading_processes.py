"""Reading in processes of their own, which most other tests leave out for small files."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import traces
from command_line import PROGRAM, refusal
from test_bad_input import CONTENTS, long_to_read

import traceql
from traceql.database.loading import insertion, reading
from traceql.readers import worker
from traceql.sql.registry import definitions


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The processes that this one starts."""
    found: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def noted(*args: Any, **options: Any) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = start(*args, **options)
        found.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)
    return found


def tables(database: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, in order, but for the number of the load."""
    kept = [name for name, one in definitions().items() if one.kind.is_kept]
    with traceql.open(database) as trace:
        found = {name: trace.select(f"FROM {name} ORDER BY ALL").rows() for name in kept}
    del found["traceql_database"]
    return found


def two_ranks(folder: Path) -> Path:
    for rank in (0, 1):
        traces.write(
            folder / f"rank{rank}.json.gz",
            traces.step(ts=0, dur=9, generation=(1, 1)),
            traces.launch(ts=1, correlation=1),
            traces.flow("s", ts=1, pid=traces.PID, tid=traces.PID),
            traces.kernel(ts=4 + rank, dur=5, correlation=1, grid=[8, 1, 1]),
            traces.flow("f", ts=4 + rank, pid=0, tid=7),
            traces.kernel("größe", ts=7, dur=5),
            {"ph": "i", "name": "mark", "ts": 3, "pid": 1, "tid": 1, "args": {"n": [1.5, None]}},
            distributedInfo={"rank": rank, "world_size": 2},
        )
    return folder


class AtOnce(ThreadPoolExecutor):
    """Jobs are done when they are submitted."""

    def submit(self, job: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(job(*args, **options))
        return done


@pytest.mark.slow
def test_processes_and_fast_insertion_give_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[str]]
) -> None:
    run = two_ranks(tmp_path / "run")
    here = traceql.load(run, tmp_path / "here.duckdb")
    assert started == []
    monkeypatch.setattr(reading, "_SMALL_BYTES", -1)
    apart = traceql.load(run, tmp_path / "apart.duckdb")
    assert [process.args for process in started] == [reading.WORKER] * 2
    assert [process.returncode for process in started] == [0, 0]
    assert apart.added == here.added
    expected = tables(here.database)
    assert {"slice", "instant", "flow", "kernel", "step", "file_count"} <= expected.keys()
    assert tables(apart.database) == expected
    assert traceql.load(run, apart.database).skipped == list(apart.added)
    monkeypatch.setattr(insertion, "ThreadPoolExecutor", AtOnce)
    traceql.load(run, tmp_path / "fast.duckdb")
    assert tables(tmp_path / "fast.duckdb") == expected
    with traceql.open(here.database) as opened:
        assert opened.sql("SELECT id FROM slice GROUP BY id HAVING COUNT(*) > 1").rows() == []


@pytest.mark.parametrize("name", ["text", "event without ts"])
def test_an_error_in_a_process_arrives_as_it_was_raised(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[subprocess.Popen[str]],
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(str(CONTENTS[name][0]))
    raised = []
    for place in ("here", "apart"):
        if place == "apart":
            assert started == []
            monkeypatch.setattr(reading, "_SMALL_BYTES", -1)
        with pytest.raises(traceql.TraceqlError) as error:
            traceql.load(path, tmp_path / "run.duckdb")
        raised.append((error.type, str(error.value)))
    assert raised[0] == raised[1]
    assert raised[0][0] is not traceql.TraceqlError
    assert [process.returncode for process in started] == [1]


def test_a_bug_of_a_reader_is_reported_in_one_line_without_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_request: worker.Request) -> None:
        raise RuntimeError("unheard of")

    monkeypatch.setattr(reading, "read", read)
    file = traces.write(tmp_path / "rank0.json", traces.kernel(ts=0, dur=1))
    message = "reading failed (RuntimeError: unheard of); please report this trace"
    assert refusal("load", file, "-o", tmp_path / "run.duckdb") == f"traceql: {file}: {message}"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.slow
@pytest.mark.usefixtures("processes_read")
def test_a_process_that_is_killed_is_reported_in_one_line(tmp_path: Path) -> None:
    """As the kernel kills one when memory runs out."""
    big = long_to_read(tmp_path / "rank0.json")
    killed: list[int] = []

    def kill() -> None:
        for _ in range(2_000):
            for child in psutil.Process().children():
                with suppress(psutil.Error):  # it is ending, or not started yet
                    if "traceql.readers.worker" in child.cmdline():
                        child.kill()
                        killed.append(child.pid)
                        return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    said = refusal("load", big, "-o", tmp_path / "run.duckdb")
    killer.join()
    assert len(killed) == 1
    message = "the reading process was killed, perhaps for lack of memory; try --jobs 1"
    assert said == f"traceql: {big}: {message}"
    assert list(tmp_path.iterdir()) == [big]


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = traces.write(tmp_path / "rank0.json", traces.kernel(ts=0, dur=1))
    hashed = worker._sha256

    def then_written(path: Path) -> str:
        found = hashed(path)
        traces.write(path, traces.kernel(ts=0, dur=1), traces.kernel(ts=5, dur=1))
        return found

    monkeypatch.setattr(worker, "_sha256", then_written)
    said = refusal("load", file, "-o", tmp_path / "run.duckdb")
    assert said == f"traceql: {file} changed while it was read; load it when it is complete"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.slow
def test_processes_end_with_a_load_that_is_killed(tmp_path: Path) -> None:
    """Also the native trace processor that one of them may have started."""
    big = long_to_read(tmp_path / "rank0.json")
    command = [sys.executable, "-c", PROGRAM, "load", str(big), "-o", str(tmp_path / "run.duckdb")]
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(tmp_path.glob(".traceql-*/drafts/0")):
        assert load.poll() is None
    (reading_process,) = psutil.Process(load.pid).children()
    (group,) = {os.getpgid(reading_process.pid)}
    helper = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], process_group=group
    )
    load.kill()
    load.wait()
    ended, alive = psutil.wait_procs([reading_process], timeout=5)
    assert (len(ended), alive) == (1, [])
    assert helper.wait(timeout=5) == -9
    assert not any(tmp_path.glob(".traceql-*/drafts/0/result.json"))
