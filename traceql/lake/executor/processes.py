"""Runs tasks in processes of this machine."""

import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from traceql.child_process import end_with_parent
from traceql.lake.executor.task import (
    Ended,
    Executor,
    Room,
    Task,
    TaskLost,
    outcome,
    too_slow,
)
from traceql.lake.sizes import at_once_here, bytes_at
from traceql.memory import LEAST_BYTES, memory_bytes

_KILLED = "the process that loaded it was killed, perhaps for lack of memory; try --jobs 1"
_TIDYING_S = 5.0  # for a process that is told to end to remove its drafts


class Processes(Executor):
    """Runs several tasks at once, each in a process of its own.

    A task whose process died runs once more when no other does, because memory may have been
    lacking.

    Args:
        jobs: how many at once; None for as many as processors and memory permit.
    """

    parts_runs = False  # a load reads several files at once itself

    def __init__(self, jobs: int | None) -> None:
        self._at_once = jobs  # by default as many as fit, see `rooms`
        self._waiting: deque[Task] = deque()
        self._once_more: deque[Task] = deque()
        self._idle: list[_Worker] = []
        self._running: list[_Running] = []

    def rooms(self, paths: Sequence[Path]) -> Mapping[Path, Room]:
        sizes = {path: bytes_at(path) for path in paths}
        self._at_once = self._at_once or at_once_here([*sizes.values()])
        processors = max(1, (os.cpu_count() or 1) // self._at_once)
        memory = max(LEAST_BYTES, memory_bytes(None) // self._at_once)
        return {path: Room(size, processors, memory) for path, size in sizes.items()}

    def start(self, task: Task, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)(task)

    def ended(self) -> Ended:
        while True:
            self._fill()
            until = min(one.until for one in self._running)
            wait([one.worker.pipe for one in self._running], max(0.0, until - monotonic()))
            for one in [*self._running]:
                if found := self._end_of(one):
                    return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        workers = [*self._idle, *(one.worker for one in self._running)]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.end()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < (self._at_once or 1):
            self._begin(self._waiting.popleft(), is_last=False)
        if self._once_more and not self._running:
            self._begin(self._once_more.popleft(), is_last=True)

    def _begin(self, task: Task, *, is_last: bool) -> None:
        worker = self._idle.pop() if self._idle else _Worker.begun()
        with suppress(OSError):  # it has died, which its pipe tells
            worker.pipe.send(task.work)
        self._running.append(_Running(task, worker, monotonic() + task.timeout_s, is_last))

    def _end_of(self, one: "_Running") -> Ended | None:
        """What became of a task that is over for good; None for others."""
        if not one.worker.pipe.poll():
            if monotonic() < one.until:
                return None
            self._running.remove(one)
            one.worker.end(patience_s=0)
            return Ended(one.task, error=too_slow(one.task.timeout_s))
        self._running.remove(one)
        try:
            value, error = one.worker.pipe.recv()
        except (EOFError, OSError):
            one.worker.end(patience_s=0)
            if one.is_last:
                return Ended(one.task, error=TaskLost(_KILLED))
            self._once_more.append(one.task)
            return None
        self._idle.append(one.worker)
        return Ended(one.task, value, error)


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    pipe: "Connection[Any, Any]"

    @classmethod
    def begun(cls) -> Self:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there,), daemon=False)
        process.start()
        there.close()  # so that the death of the process closes the pipe
        return cls(process, here)

    def end(self, patience_s: float = _TIDYING_S) -> None:
        """Waits for the process to end, and then kills it."""
        self.process.join(patience_s)
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass(frozen=True)
class _Running:
    """A task that a worker has, until when it may, and whether it is not tried again."""

    task: Task
    worker: _Worker
    until: float
    is_last: bool


def _serve(pipe: "Connection[Any, Any]") -> None:
    """Does one task after another, as long as the process lives that gives them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for that process, which ends this one
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # remove drafts
    end_with_parent()
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        pipe.send(outcome(work))
