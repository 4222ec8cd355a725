"""Tasks in processes of this machine: they end, are told once, and leave nothing that runs."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import executor_tasks as tasks
import psutil
import pytest
from traces import hears_ctrl_c

from traceql.errors import LakeError, TraceqlError
from traceql.runs.lake.executor import Processes, Task, TaskLost, TaskResult


def task(work: Callable[[], Any], name: str = "run", timeout_s: float = 60) -> Task:
    return Task(work, Path(name), memory_bytes=1 << 30, timeout_s=timeout_s)


def all_ended(*started: Task, jobs: int = 2) -> dict[str, TaskResult]:
    with Processes(jobs) as executor:
        for one in started:
            executor.start(one)
        found = [executor.next_result() for _ in started]
    return {str(one.task.reads): one for one in found}


def test_each_task_is_reported_once_with_what_it_returned() -> None:
    found = all_ended(*(task(partial(tasks.double, n), str(n)) for n in range(5)))
    assert {name: one.value for name, one in found.items()} == {str(n): 2 * n for n in range(5)}


@pytest.mark.slow
def test_what_a_task_raises_comes_back_and_ends_no_other() -> None:
    found = all_ended(
        task(tasks.refuse, "refused"),
        task(tasks.break_down, "odd"),
        task(partial(tasks.double, 4), "good"),
    )
    assert isinstance(found["refused"].error, LakeError)
    assert str(found["refused"].error) == "no such thing"
    assert isinstance(found["odd"].error, TraceqlError)
    assert "UnicodeDecodeError" in str(found["odd"].error)
    assert found["good"].value == 8


@pytest.mark.slow
def test_a_task_whose_process_died_runs_once_more_alone_and_is_then_lost(tmp_path: Path) -> None:
    notes = tmp_path / "once"
    found = all_ended(task(partial(tasks.die, notes, times=1), "died"))
    assert found["died"].value == "alive"
    assert len(set(notes.read_text().split())) == 2
    notes = tmp_path / "notes"
    found = all_ended(
        task(partial(tasks.die, notes), "dies"), task(partial(tasks.double, 1), "good")
    )
    assert found["good"].value == 2
    assert isinstance(found["dies"].error, TaskLost)
    assert "was killed, perhaps for lack of memory" in str(found["dies"].error)
    assert len(notes.read_text().split()) == 2


@pytest.mark.slow
def test_a_task_that_takes_too_long_is_given_up() -> None:
    began = time.monotonic()
    found = all_ended(
        task(partial(tasks.sleep, 60), "slow", timeout_s=2), task(partial(tasks.double, 1), "good")
    )
    assert time.monotonic() - began < 30
    assert found["good"].value == 2
    assert str(found["slow"].error) == "it did not finish in 2 s; increase --timeout"


_DRIVER = """
import sys
from functools import partial
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import executor_tasks
from test_executors import task
from traceql.runs.lake.executor import Processes
if __name__ == "__main__":
    with Processes(1) as executor:
        executor.start(task(partial(executor_tasks.tidy_up, Path(sys.argv[2]))))
        executor.next_result()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_tasks_end_with_the_process_that_started_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    script, notes = tmp_path / "driver.py", tmp_path / "notes"
    script.write_text(_DRIVER)
    driver = subprocess.Popen(
        [sys.executable, str(script), str(Path(__file__).parent), str(notes)],
        preexec_fn=hears_ctrl_c,
    )
    tasks.wait_until(notes.exists)
    children = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(number)
    driver.wait(30)
    gone, alive = psutil.wait_procs(children, timeout=30)
    for one in alive:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    assert gone
    assert not alive
    tidied_up = ["tidied up"] if number == signal.SIGINT else []  # it had time to say so
    assert notes.read_text().splitlines() == ["begun", *tidied_up]
