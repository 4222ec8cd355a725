"""Runs tasks on the machines of a Ray cluster."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from traceql.errors import TraceqlError, reason
from traceql.lake.executor.ray_cluster import (
    Machine,
    alive_nodes,
    cannot_run,
    joined,
    machines,
    most_memory,
    on_machine,
    processors,
)
from traceql.lake.executor.task import (
    Ended,
    Executor,
    Room,
    Task,
    TaskLost,
    outcome,
    too_slow,
)
from traceql.lake.sizes import memory_of
from traceql.units import SIZE

_ATTEMPTS = 3
_WAIT_S = 600.0  # for a machine that takes a task
_LOOK_AGAIN_S = 1.0
_ANSWER_S = 60.0  # for the row of a run to come back


class OnRay(Executor):
    """Runs each task on a machine that has what it reads.

    A task whose process or machine died is started again, elsewhere if need be. A task that no
    machine takes, while none of the others runs, is given up.

    Args:
        address: of the cluster.
        jobs: how many tasks at once; None for one per processor of the cluster.
        wait_s: how long no machine may take a task, s.

    Raises:
        TraceqlError: ray is not installed, or no cluster answers.
    """

    parts_runs = True

    def __init__(self, address: str, jobs: int | None = None, wait_s: float | None = None) -> None:
        self._ray = joined(address)
        self._run = self._ray.remote(max_retries=0, num_cpus=1, num_returns="streaming")(_told)
        self._at_once = jobs or max(1, processors(self._ray))
        self._wait_s = wait_s or _WAIT_S
        self._machines: list[Machine] = []
        self._waiting: deque[_Attempt] = deque()
        self._running: dict[Any, _Attempt] = {}
        self._moved = monotonic()  # when a task ran, or was submitted, last

    def rooms(self, paths: Sequence[Path]) -> Mapping[Path, Room]:
        self._machines = machines(self._ray, paths)
        most = most_memory(self._ray)
        found = {}
        for path in paths:
            sizes = [one.sizes[path] for one in self._machines if path in one.sizes]
            if not sizes:
                raise TraceqlError(f"{path}: no such file or folder on any machine of the cluster")
            if len(set(sizes)) > 1:
                raise TraceqlError(
                    f"{path} is not the same on all machines of the cluster; move it to a folder "
                    "that they share"
                )
            found[path] = Room(sizes[0], 1, min(most, memory_of(sizes[0])))
        return found

    def start(self, task: Task, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)(_Attempt(task))

    def ended(self) -> Ended:
        while True:
            while self._waiting and len(self._running) < self._at_once:
                self._submit(self._waiting.popleft())
            ready, _ = self._ray.wait([*self._running], timeout=_LOOK_AGAIN_S)
            for one in ready:
                if found := self._news(one, self._running.pop(one)):
                    return found
            for one, attempt in self._running.items():
                if late := self._late(attempt):
                    del self._running[one]
                    self._ray.cancel(one, force=True)
                    return Ended(attempt.task, error=late)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self._running:
            with suppress(self._ray.exceptions.RayError):
                self._ray.cancel(one, force=True)
        self._ray.shutdown()

    def _submit(self, attempt: "_Attempt") -> None:
        node = self._node_for(attempt.task)
        strategy = on_machine(self._ray, node) if node else "SPREAD"
        options = {"memory": attempt.task.memory_bytes, "scheduling_strategy": strategy}
        self._moved = monotonic()
        running = self._run.options(**options).remote(attempt.task.work)
        self._running[running] = replace(
            attempt, number=attempt.number + 1, since=monotonic(), node=node
        )

    def _node_for(self, task: Task) -> str | None:
        """The machine that must run a task, because not all have what it reads."""
        have = [one.node_id for one in self._machines if task.reads in one.sizes]
        if len(have) == len(self._machines):
            return None
        alive = alive_nodes(self._ray)
        busy = Counter(one.node for one in self._running.values())
        return min(have, key=lambda node: (node not in alive, busy[node]))

    def _news(self, running: Any, attempt: "_Attempt") -> Ended | None:
        """What became of a task that is over for good; None if it has begun, or begins again."""
        self._moved = monotonic()
        try:
            told = self._ray.get(next(running), timeout=_ANSWER_S)
        except self._ray.exceptions.RayTaskError as failure:
            return Ended(attempt.task, error=cannot_run(failure))
        except self._ray.exceptions.RayError as failure:
            if attempt.number < _ATTEMPTS:
                self._waiting.append(replace(attempt, has_begun=False))
                return None
            times = f"was lost {attempt.number} times"
            lost = TaskLost(f"its task {times}: {self._why(failure)}")
            return Ended(attempt.task, error=lost)
        if told is None:
            self._running[running] = replace(attempt, since=monotonic(), has_begun=True)
            return None
        return Ended(attempt.task, *told)

    def _why(self, failure: Exception) -> str:
        known = self._ray.exceptions
        kinds = {
            known.NodeDiedError: "the machine that ran it is gone",
            known.TaskUnschedulableError: "no machine that has the file is left",
            known.WorkerCrashedError: "its process was killed, perhaps for lack of memory",
            known.OutOfMemoryError: "its machine had too little memory",
        }
        return kinds.get(type(failure)) or reason(failure)

    def _late(self, attempt: "_Attempt") -> TaskLost | None:
        """Why a task is given up now; None if it is not."""
        task = attempt.task
        if attempt.has_begun:
            is_late = monotonic() - attempt.since > task.timeout_s
            return too_slow(task.timeout_s) if is_late else None
        if any(one.has_begun for one in self._running.values()):
            self._moved = monotonic()  # it may wait for that one to end
        if monotonic() - self._moved < self._wait_s:
            return None
        return TaskLost(
            f"no machine of the Ray cluster took it in {self._wait_s:,.0f} s; it needs a processor "
            f"and {SIZE.text(task.memory_bytes)} of memory"
        )


@dataclass(frozen=True)
class _Attempt:
    """A task that was submitted so many times.

    Attributes:
        since: when it was submitted, or began; s.
        node: the machine that must run it; None for any.
    """

    task: Task
    number: int = 0
    since: float = 0.0
    has_begun: bool = False
    node: str | None = None


def _told(work: Callable[[], Any]) -> Iterator[tuple[Any, Exception | None] | None]:
    """Yields None when it begins, so that waiting is told from working, and then the outcome."""
    yield None
    yield outcome(work)
