"""What an executor runs, how much memory that takes, and how tasks wait their turn."""

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
class Room:
    """What there is for a task that loads a path.

    Attributes:
        size_bytes: of the files at the path, unpacked, about.
        processors: how many it may use.
        memory_bytes: how much it may use.
    """

    size_bytes: int
    processors: int
    memory_bytes: int


@dataclass(frozen=True, eq=False)
class Task:
    """One call of a function, which another process can make.

    Attributes:
        work: can be pickled, and so can what it returns. It is called again if its process dies.
        reads: the path that must be there where it runs; one of those that `rooms` was given.
        memory_bytes: how much memory it is expected to use.
        timeout_s: how long it may run.
    """

    work: Callable[[], Any]
    reads: Path
    memory_bytes: int
    timeout_s: float


@dataclass(frozen=True)
class Ended:
    """A task that is over.

    Attributes:
        value: what it returned; None if it did not return.
        error: what it raised, or `TaskLost`; None if it returned.
    """

    task: Task
    value: Any = None
    error: Exception | None = None


class TaskLost(TraceqlError):
    """A task took too long, or what ran it has died too often."""


class Executor(AbstractContextManager["Executor"], Protocol):
    """Runs tasks. At the end of its block, those that still run are ended.

    Attributes:
        parts_runs: whether it pays to read each file of a run in a task of its own.
    """

    parts_runs: bool

    def rooms(self, paths: Sequence[Path]) -> Mapping[Path, Room]:
        """What there is for a task of each path.

        Raises:
            TraceqlError: a path does not exist where tasks can run.
        """
        ...

    def start(self, task: Task, *, first: bool = False) -> None:
        """Runs a task as soon as there is room for it.

        Args:
            first: whether it comes before tasks that have not begun.
        """
        ...

    def ended(self) -> Ended:
        """Waits until one of the started tasks is over; each is told once."""
        ...


def too_slow(timeout_s: float) -> TaskLost:
    """The end of a task that ran for too long."""
    return TaskLost(f"it did not end in {timeout_s:,.0f} s; allow more with --timeout")


def outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a call returns, or raises, as it can be sent to another process."""
    try:
        return work(), None
    except (TraceqlError, OSError) as error:
        return None, error
    except Exception as error:  # of a class that need not exist there
        return None, TraceqlError(reason(error))


# Memory for each byte of a trace. Large traces are read section by section, so that it is limited.
_MEMORY_OF_BYTE = 3
_LEAST_MEMORY, _MOST_MEMORY = 1 << 30, 4 << 30
# Ten times what loading took on one of two shared cores (docs/scale.md), and time for a slow start.
_SECONDS_OF_BYTE = 5e-7
_LEAST_SECONDS = 600.0


def bytes_at(path: Path) -> int:
    """Bytes of the files at a path, unpacked, about.

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
    """How many runs to load at once here: one per processor, if they fit into memory together."""
    fit = _free_bytes() // max(map(memory_of, sizes))
    return max(1, min(len(sizes), os.cpu_count() or 1, fit))


def _free_bytes() -> int:
    """Memory of this machine, or container, that no program uses."""
    usable = memory_bytes(None) * 2
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(usable, int(line.split()[1]) * 1024)
    return usable // 2


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
