"""Runs whose files are read by tasks of their own: the same rows, whatever becomes of a task."""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import databases
import pytest

import traceql
from traceql.database.loading.reading import Workers
from traceql.runs.lake.add import add_run
from traceql.runs.lake.executor import Executor, Resources, Task, TaskResult, bytes_at, outcome
from traceql.runs.lake.fan_out import add_runs
from traceql.runs.lake.maintenance import check_lake

pytestmark = pytest.mark.slow

BATCH16 = databases.EXAMPLES / databases.BATCH16
RANKS = sorted((BATCH16 / "traces").iterdir())


class Here(Executor):
    """Runs tasks in this process, one after the other; `ran` are their paths, in order."""

    parts_runs = True

    def __init__(self) -> None:
        self.ran: list[Path] = []
        self._waiting: deque[Task] = deque()

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        return {path: Resources(bytes_at(path), 1, 1 << 30) for path in paths}

    def start(self, task: Task, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)(task)

    def next_result(self) -> TaskResult:
        task = self._waiting.popleft()
        self.ran.append(task.reads)
        return TaskResult(task, *outcome(task.work))

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read by processes, in order."""
    found: list[str] = []
    original = Workers.read

    def noted(self: Workers, request: object) -> None:
        found.append(Path(request.file).name)  # type: ignore[attr-defined]
        original(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "read", noted)
    return found


def rows(lake: Path, sql: str = "FROM kernel ORDER BY ALL") -> list[dict[str, object]]:
    with traceql.open_lake(lake) as opened:
        return opened.sql(sql).rows()


def test_each_file_is_read_once_and_then_the_run_is_added(tmp_path: Path, read: list[str]) -> None:
    executor = Here()
    (done,) = add_runs([BATCH16], str(tmp_path / "lake"), executor)
    assert executor.ran == [*RANKS, BATCH16]
    assert sorted(read) == [file.name for file in RANKS]
    assert done.entry.about.ranks == 2
    assert check_lake(str(tmp_path / "lake")).problems == ()
    assert [one.name for one in (tmp_path / "lake").iterdir() if one.name.startswith(".")] == []


def test_the_rows_are_those_of_a_run_that_is_loaded_at_once(tmp_path: Path) -> None:
    one, other = tmp_path / "parted", tmp_path / "at once"
    list(add_runs([BATCH16], str(one), Here()))
    add_run(BATCH16, other)
    for table in ("kernel", "collective", "layer", "gap", "cost", "trace", "ledger"):
        sql = f"FROM {table} ORDER BY ALL"
        assert rows(one, sql) == rows(other, sql), table
