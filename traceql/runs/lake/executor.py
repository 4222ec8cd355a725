"""Executors of tasks, with their memory and time limits; processes of this machine are one."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from traceql.errors import TraceqlError, reason
from traceql.readers.contract import unpacked_bytes
from traceql.util.process import LEAST_BYTES, end_with_parent, memory_bytes


class Resources(NamedTuple):
    """Resources for a task that loads a path; `size_bytes` is about the unpacked size of files."""

    size_bytes: int
    processors: int
    memory_bytes: int


@dataclass(frozen=True, eq=False)
class Task:
    """A function call for another process, which is repeated if its process ends early.

    Attributes:
        work: can be pickled, and so can its result.
        reads: the path that it needs; one of those given to `resources`.
    """

    work: Callable[[], Any]
    reads: Path
    memory_bytes: int
    timeout_s: float


@dataclass(frozen=True)
class TaskResult:
    """The value that a task returned, or the error: raised, or `TaskLost`."""

    task: Task
    value: Any = None
    error: Exception | None = None


class TaskLost(TraceqlError):
    """A task exceeded its timeout, or its process died too often."""


@dataclass(frozen=True)
class Attempt:
    task: Task
    number: int = 1


class Executor(AbstractContextManager["Executor"]):
    """Runs tasks in order; lost ones are repeated after the others.

    At the end of its block, running ones are terminated.

    Attributes:
        parts_runs: whether each file of a run is read by a separate task.
        attempts: most attempts of a task.
    """

    parts_runs = False
    attempts = 1

    def __init__(self) -> None:
        self._queue: deque[Attempt] = deque()

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        """The resources for a task of each path; TraceqlError if one is not where tasks run."""
        raise NotImplementedError

    def start(self, task: Task, *, first: bool = False) -> None:
        """Runs a task as soon as resources are free, before all others if it is `first`."""
        (self._queue.appendleft if first else self._queue.append)(Attempt(task))

    def next_result(self) -> TaskResult:
        """Waits for the result of one of the started tasks; each is returned once."""
        while True:
            while self._queue and self._has_room(self._queue[0]):
                self._begin(self._queue.popleft())
            if found := self._news():
                return found

    def _lost(self, attempt: Attempt, why: str) -> TaskResult | None:
        """Queues a task again whose process or machine died; its result after the last attempt."""
        if attempt.number < self.attempts:
            self._queue.append(replace(attempt, number=attempt.number + 1))
            return None
        return TaskResult(attempt.task, error=TaskLost(why))

    def _has_room(self, attempt: Attempt) -> bool:
        raise NotImplementedError

    def _begin(self, attempt: Attempt) -> None:
        raise NotImplementedError

    def _news(self) -> TaskResult | None:
        """Waits for an event; the result of a task, if one finished."""
        raise NotImplementedError


def too_slow(timeout_s: float) -> TaskLost:
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
    """Approximate unpacked size of the files at a path; TraceqlError if there is none."""
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


def _at_once_here(sizes: Sequence[int]) -> int:
    """Runs loaded in parallel on this machine: one per processor, if they fit into memory."""
    usable = memory_bytes(None) * 2  # of the machine or container
    free = usable // 2
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = min(usable, int(line.split()[1]) * 1024)
    return max(1, min(len(sizes), os.cpu_count() or 1, free // max(map(memory_of, sizes))))


_KILLED = "the process that loaded it was killed, perhaps for lack of memory; try --jobs 1"
_TIDYING_S = 5.0  # for a terminated process to remove its drafts


class Processes(Executor):
    """Runs several tasks in parallel, each in its own process.

    A task whose process died is repeated alone, because it may have run out of memory. A load
    reads several files at once itself.

    Args:
        jobs: tasks in parallel; by default as many as processors and memory permit.
    """

    attempts = 2

    def __init__(self, jobs: int | None) -> None:
        super().__init__()
        self._at_once = jobs  # by default as many as fit, see `resources`
        self._idle: list[_Worker] = []
        self._running: list[_Running] = []

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        sizes = {path: bytes_at(path) for path in paths}
        self._at_once = self._at_once or _at_once_here([*sizes.values()])
        processors = max(1, (os.cpu_count() or 1) // self._at_once)
        memory = max(LEAST_BYTES, memory_bytes(None) // self._at_once)
        return {path: Resources(size, processors, memory) for path, size in sizes.items()}

    def __exit__(self, *error: object) -> None:
        workers = [*self._idle, *(one.worker for one in self._running)]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.end()

    def _has_room(self, attempt: Attempt) -> bool:
        if not self._running:
            return True
        is_alone = max(attempt.number, self._running[0].attempt.number) > 1
        return not is_alone and len(self._running) < (self._at_once or 1)

    def _begin(self, attempt: Attempt) -> None:
        worker = self._idle.pop() if self._idle else _begun_worker()
        with suppress(OSError):  # it has died; its pipe is closed
            worker.pipe.send(attempt.task.work)
        self._running.append(_Running(attempt, worker, monotonic() + attempt.task.timeout_s))

    def _news(self) -> TaskResult | None:
        until = min(one.until for one in self._running)
        wait([one.worker.pipe for one in self._running], max(0.0, until - monotonic()))
        for one in [*self._running]:
            if found := self._end_of(one):
                return found
        return None

    def _end_of(self, one: "_Running") -> TaskResult | None:
        """The result of a finished task; None for others."""
        task, worker = one.attempt.task, one.worker
        has_answer = worker.pipe.poll()
        if not has_answer and monotonic() < one.until:
            return None
        self._running.remove(one)
        if not has_answer:
            worker.end(patience_s=0)
            return TaskResult(task, error=too_slow(task.timeout_s))
        try:
            value, error = worker.pipe.recv()
        except (EOFError, OSError):
            worker.end(patience_s=0)
            return self._lost(one.attempt, _KILLED)
        self._idle.append(worker)
        return TaskResult(task, value, error)


class _Worker(NamedTuple):
    process: SpawnProcess
    pipe: "Connection[Any, Any]"

    def end(self, patience_s: float = _TIDYING_S) -> None:
        """Waits for the process to end, and then kills it."""
        self.process.join(patience_s)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Running(NamedTuple):
    attempt: Attempt
    worker: _Worker
    until: float


def _begun_worker() -> _Worker:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=False)
    process.start()
    there.close()  # so that the death of the process closes the pipe
    return _Worker(process, here)


def _serve(pipe: "Connection[Any, Any]") -> None:
    """Runs tasks until the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # remove drafts
    end_with_parent()
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        pipe.send(outcome(work))
