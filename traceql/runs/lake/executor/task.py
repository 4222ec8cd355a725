"""What an executor runs, and what it says of it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from traceql.errors import TraceqlError, reason


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
