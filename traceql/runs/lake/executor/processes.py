"""Runs tasks in processes of this machine."""

import os
import signal
import sys
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

from traceql.runs.lake.executor.task import (
    Attempt,
    Queued,
    Resources,
    TaskResult,
    at_once_here,
    bytes_at,
    outcome,
    too_slow,
)
from traceql.util.process import LEAST_BYTES, end_with_parent, memory_bytes

_KILLED = "the process that loaded it was killed, perhaps for lack of memory; try --jobs 1"
_TIDYING_S = 5.0  # for a terminated process to remove its drafts


class Processes(Queued):
    """Runs several tasks in parallel, each in its own process.

    A task whose process died is repeated alone, because it may have run out of memory.

    Args:
        jobs: tasks in parallel; by default as many as processors and memory permit.
    """

    parts_runs = False  # a load reads several files at once itself

    def __init__(self, jobs: int | None) -> None:
        super().__init__(attempts=2)
        self._at_once = jobs  # by default as many as fit, see `resources`
        self._idle: list[_Worker] = []
        self._running: list[_Running] = []

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        sizes = {path: bytes_at(path) for path in paths}
        self._at_once = self._at_once or at_once_here([*sizes.values()])
        processors = max(1, (os.cpu_count() or 1) // self._at_once)
        memory = max(LEAST_BYTES, memory_bytes(None) // self._at_once)
        return {path: Resources(size, processors, memory) for path, size in sizes.items()}

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

    def _has_room(self, attempt: Attempt) -> bool:
        if not self._running:
            return True
        is_alone = any(one.number > 1 for one in (attempt, self._running[0].attempt))
        return not is_alone and len(self._running) < (self._at_once or 1)

    def _begin(self, attempt: Attempt) -> None:
        worker = self._idle.pop() if self._idle else _Worker.begun()
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
        task = one.attempt.task
        if not one.worker.pipe.poll():
            if monotonic() < one.until:
                return None
            self._running.remove(one)
            one.worker.end(patience_s=0)
            return TaskResult(task, error=too_slow(task.timeout_s))
        self._running.remove(one)
        try:
            value, error = one.worker.pipe.recv()
        except (EOFError, OSError):
            one.worker.end(patience_s=0)
            return self._lost(one.attempt, _KILLED)
        self._idle.append(one.worker)
        return TaskResult(task, value, error)


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
    """A task of a worker, with its deadline."""

    attempt: Attempt
    worker: _Worker
    until: float


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
