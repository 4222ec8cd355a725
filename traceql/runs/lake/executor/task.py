"""Tasks of an executor: memory, time limits, results, and the queue of waiting ones."""

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from traceql.errors import TraceqlError, reason
from traceql.readers.read_mode import unpacked_bytes
from traceql.util.process import memory_bytes


@dataclass(frozen=True)
class Resources:
    """Resources for a task that loads a path.

    Attributes:
        size_bytes: approximate unpacked size of the files at the path.
    """

    size_bytes: int
    processors: int
    memory_bytes: int


@dataclass(frozen=True, eq=False)
class Task:
    """A function call for another process.

    Attributes:
        work: can be pickled, and so can its result. It is repeated if its process ends early.
        reads: the path that it needs; one of those given to `resources`.
        memory_bytes: expected memory.
    """

    work: Callable[[], Any]
    reads: Path
    memory_bytes: int
    timeout_s: float


@dataclass(frozen=True)
class TaskResult:
    """The result of a task.

    Attributes:
        value: returned; None after an error.
        error: raised, or `TaskLost`; None if the task returned.
    """

    task: Task
    value: Any = None
    error: Exception | None = None


class TaskLost(TraceqlError):
    """A task exceeded its timeout, or its process died too often."""


class Executor(AbstractContextManager["Executor"], Protocol):
    """Runs tasks. At the end of its block, running ones are terminated.

    Attributes:
        parts_runs: whether each file of a run is read by a separate task.
    """

    parts_runs: bool

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        """The resources for a task of each path.

        Raises:
            TraceqlError: a path does not exist where tasks can run.
        """
        ...

    def start(self, task: Task, *, first: bool = False) -> None:
        """Runs a task as soon as resources are free.

        Args:
            first: whether it comes before tasks that have not begun.
        """
        ...

    def next_result(self) -> TaskResult:
        """Waits for the result of one of the started tasks; each is returned once."""
        ...


def too_slow(timeout_s: float) -> TaskLost:
    """The error of a task after its timeout."""
    return TaskLost(f"it did not finish in {timeout_s:,.0f} s; increase --timeout")


def outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The value or error of a call, in a form that can be sent to another process."""
    try:
        return work(), None
    except (TraceqlError, OSError) as error:
        return None, error
    except Exception as error:  # of a class that need not exist there
        return None, TraceqlError(reason(error))


# Memory per byte of a trace. Large traces are read in sections, which limits it.
_MEMORY_OF_BYTE = 3
_LEAST_MEMORY, _MOST_MEMORY = 1 << 30, 4 << 30
# Ten times the load time on one of two shared cores (docs/scale.md), and time for a slow start.
_SECONDS_OF_BYTE = 5e-7
_LEAST_SECONDS = 600.0


def bytes_at(path: Path) -> int:
    """Approximate unpacked size of the files at a path.

    Raises:
        TraceqlError: there is no such path.
        OSError: the path cannot be read.
    """
    if not path.exists():
        raise TraceqlError(f"{path}: no such file or folder")
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(map(unpacked_bytes, files))


def memory_of(size_bytes: int) -> int:
    """Memory to load files of this size with, bytes."""
    return min(_MOST_MEMORY, max(_LEAST_MEMORY, _MEMORY_OF_BYTE * size_bytes))


def timeout_of(size_bytes: int) -> float:
    """How long loading files of this size may take, s."""
    return _LEAST_SECONDS + _SECONDS_OF_BYTE * size_bytes


def at_once_here(sizes: Sequence[int]) -> int:
    """Runs loaded in parallel on this machine: one per processor, if they fit into memory."""
    usable = memory_bytes(None) * 2  # of the machine or container
    free = usable // 2
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = min(usable, int(line.split()[1]) * 1024)
    return max(1, min(len(sizes), os.cpu_count() or 1, free // max(map(memory_of, sizes))))


@dataclass(frozen=True)
class Attempt:
    """The first or a repeated attempt of a task."""

    task: Task
    number: int = 1


class Queued(Executor):
    """Begins tasks in order; lost ones are repeated after the others.

    Args:
        attempts: most attempts of a task.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._waiting: deque[Attempt] = deque()

    def start(self, task: Task, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)(Attempt(task))

    def next_result(self) -> TaskResult:
        while True:
            while self._waiting and self._has_room(self._waiting[0]):
                self._begin(self._waiting.popleft())
            if found := self._news():
                return found

    def _lost(self, attempt: Attempt, why: str) -> TaskResult | None:
        """Queues a task again whose process or machine died; its result after the last attempt."""
        if attempt.number < self._attempts:
            self._waiting.append(replace(attempt, number=attempt.number + 1))
            return None
        return TaskResult(attempt.task, error=TaskLost(why))

    @abstractmethod
    def _has_room(self, attempt: Attempt) -> bool:
        """Whether a task can begin now."""

    @abstractmethod
    def _begin(self, attempt: Attempt) -> None: ...

    @abstractmethod
    def _news(self) -> TaskResult | None:
        """Waits for an event; the result of a task, if one finished."""
