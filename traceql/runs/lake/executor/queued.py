"""What executors share: tasks wait their turn, and are begun again if what ran them has died."""

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, replace

from traceql.runs.lake.executor.task import Ended, Executor, Task, TaskLost


@dataclass(frozen=True)
class Attempt:
    """A task that is begun for the first, or so manieth, time."""

    task: Task
    number: int = 1


class Queued(Executor):
    """Begins tasks in the order in which they were started; those that are lost, after the others.

    Args:
        attempts: how often a task is begun before it is given up.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._waiting: deque[Attempt] = deque()

    def start(self, task: Task, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)(Attempt(task))

    def ended(self) -> Ended:
        while True:
            while self._waiting and self._has_room(self._waiting[0]):
                self._begin(self._waiting.popleft())
            if found := self._news():
                return found

    def _lost(self, attempt: Attempt, why: str) -> Ended | None:
        """Lets a task whose process or machine has died begin again; its end if it may not."""
        if attempt.number < self._attempts:
            self._waiting.append(replace(attempt, number=attempt.number + 1))
            return None
        return Ended(attempt.task, error=TaskLost(why))

    @abstractmethod
    def _has_room(self, attempt: Attempt) -> bool:
        """Whether a task can begin now."""

    @abstractmethod
    def _begin(self, attempt: Attempt) -> None: ...

    @abstractmethod
    def _news(self) -> Ended | None:
        """Waits for something to happen; the end of one of the tasks that were begun, if any."""
