"""An executor that runs tasks in this process, one after the other."""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from traceql.runs.lake.executor.task import Executor, Resources, Task, TaskResult, bytes_at, outcome


class Here(Executor):
    """Stands for machines that share the work on a run.

    Attributes:
        ran: the paths of the tasks that ran, in order.
        kills: the paths of tasks that are lost before they do anything, by the error.
    """

    parts_runs = True

    def __init__(self, kills: Mapping[Path, Exception] | None = None) -> None:
        self.ran: list[Path] = []
        self.kills = kills or {}
        self._waiting: deque[Task] = deque()

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        return {path: Resources(bytes_at(path), 1, 1 << 30) for path in paths}

    def start(self, task: Task, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)(task)

    def next_result(self) -> TaskResult:
        task = self._waiting.popleft()
        self.ran.append(task.reads)
        if task.reads in self.kills:
            return TaskResult(task, error=self.kills[task.reads])
        return TaskResult(task, *outcome(task.work))

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()
