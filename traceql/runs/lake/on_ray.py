"""Runs tasks on the machines of a Ray cluster."""

import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import monotonic
from typing import Any, NamedTuple

from traceql.errors import TraceqlError, reason
from traceql.runs.lake.executor import (
    Attempt,
    Executor,
    Resources,
    Task,
    TaskLost,
    TaskResult,
    bytes_at,
    memory_of,
    outcome,
    too_slow,
)
from traceql.util.resources import __version__
from traceql.util.units import SIZE

_PORT_S = 10.0
_JOIN_S = 60.0
_LOOK_S = 60.0


@dataclass(frozen=True)
class Machine:
    """A node of the cluster, and the approximate unpacked size of the files at each path it has."""

    node_id: str
    sizes: Mapping[Path, int]


def joined(address: str) -> Any:
    """The module ray, after this process has joined a cluster; TraceqlError if it cannot."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise TraceqlError("ray is not installed; run pip install 'traceql[ray]'") from None
    kept = signal.getsignal(signal.SIGTERM)  # that of Ray prints a stack and exits
    failure = _failure_to_join(ray, address)
    if current_thread() is main_thread():
        signal.signal(signal.SIGTERM, kept)
    if failure:
        raise TraceqlError(
            f"no Ray cluster answers at {address}: {failure}; run this on one of its machines, "
            "with the HOST:PORT of ray start, and with its token if it has one"
        )
    return ray


def _failure_to_join(ray: Any, address: str) -> str | None:
    """Why this process cannot join the cluster; None if it has."""
    if address.startswith("ray://"):
        return "it is a Ray client server, which cannot run these tasks"
    results: list[str | None] = []

    def join() -> None:
        try:
            _require_port(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            results.append(None)
        except Exception as error:
            results.append(reason(error))

    joining = Thread(target=join, daemon=True)  # Ray may wait for minutes
    joining.start()
    joining.join(_JOIN_S)
    return results[0] if results else f"no answer in {_JOIN_S:.0f} s"


def _require_port(address: str) -> None:
    """Raises OSError if nothing listens at a host and port."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()


def alive_nodes(ray: Any) -> set[str]:
    return {one["NodeID"] for one in _alive(ray)}


def machines(ray: Any, paths: Sequence[Path]) -> list[Machine]:
    """The responding machines, and which of these paths they have; all need this version."""
    look = ray.remote(max_retries=0, num_cpus=0)(_look)
    looking = {
        look.options(scheduling_strategy=on_machine(ray, one["NodeID"])).remote(paths): one
        for one in _alive(ray)
    }
    answered, _ = ray.wait([*looking], num_returns=len(looking), timeout=_LOOK_S)
    found = []
    for one in answered:
        node = looking[one]
        try:
            version, sizes = ray.get(one, timeout=_LOOK_S)
        except ray.exceptions.RayTaskError as failure:
            raise cannot_run(failure) from None
        except ray.exceptions.RayError:  # the machine has left
            continue
        if version != __version__:
            where = node["NodeManagerHostname"]
            raise TraceqlError(f"{where} has traceql {version}, and this machine {__version__}")
        found.append(Machine(node["NodeID"], sizes))
    return found


def cannot_run(failure: Exception) -> TraceqlError:
    """The error of a task that failed before it reached traceql."""
    last = str(failure).strip().splitlines()[-1]
    return TraceqlError(
        f"a machine of the Ray cluster cannot run a task: {last}; all need this version of traceql"
    )


def on_machine(ray: Any, node_id: str) -> Any:
    strategies = ray.util.scheduling_strategies
    return strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)


def _alive(ray: Any) -> list[Mapping[str, Any]]:
    return [one for one in ray.nodes() if one["Alive"]]


def _look(paths: Sequence[Path]) -> tuple[str, dict[Path, int]]:
    """The version of traceql on this machine, and the sizes of those paths that it has."""
    found = {}
    for path in paths:
        with suppress(TraceqlError, OSError):
            found[path] = bytes_at(path)
    return __version__, found


_WAIT_S = 600.0  # until a machine starts a task
_LOOK_AGAIN_S = 1.0
_ANSWER_S = 60.0  # to receive the result of a task
_SILENT_S = 10.0  # without the head of the cluster; after 60 s, Ray ends this process


class OnRay(Executor):
    """Runs each task on a machine that has the path it reads.

    A task whose process or machine died is repeated, if necessary elsewhere. A task fails if no
    machine starts it for a time in which no other task runs.

    Args:
        address: of the cluster.
        jobs: tasks in parallel; by default one per processor of the cluster.
        wait_s: time until a machine must start a task, s.

    Raises:
        TraceqlError: ray is not installed, no cluster answers, or its head has left.
    """

    parts_runs = True
    attempts = 3

    def __init__(self, address: str, jobs: int | None = None, wait_s: float | None = None) -> None:
        super().__init__()
        self._ray = joined(address)
        self._run = self._ray.remote(max_retries=0, num_cpus=1, num_returns="streaming")(_run)
        processors = sum(one["Resources"].get("CPU", 0) for one in _alive(self._ray))
        self._at_once = jobs or max(1, int(processors))
        self._wait_s = wait_s or _WAIT_S
        self._machines: list[Machine] = []
        self._running: dict[Any, _Running] = {}
        self._moved = monotonic()  # when a task last ran or was submitted
        self._head = str(self._ray.get_runtime_context().gcs_address)
        self._heard = monotonic()  # when the head last answered

    def resources(self, paths: Sequence[Path]) -> Mapping[Path, Resources]:
        self._machines = machines(self._ray, paths)
        memory = [one["Resources"].get("memory", 0) for one in _alive(self._ray)]
        most = int(max(memory, default=0))
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
            found[path] = Resources(sizes[0], 1, min(most, memory_of(sizes[0])))
        return found

    def __exit__(self, *error: object) -> None:
        for submitted in self._running:
            self._cancel(submitted)
        self._ray.shutdown()

    def _has_room(self, attempt: Attempt) -> bool:
        return len(self._running) < self._at_once

    def _begin(self, attempt: Attempt) -> None:
        task = attempt.task
        node = self._node_for(task)
        strategy = on_machine(self._ray, node) if node else "SPREAD"
        options = {"memory": task.memory_bytes, "scheduling_strategy": strategy}
        self._moved = monotonic()
        submitted = self._run.options(**options).remote(task.work)
        self._running[submitted] = _Running(attempt, monotonic(), node)

    def _news(self) -> TaskResult | None:
        ready, _ = self._ray.wait([*self._running], timeout=_LOOK_AGAIN_S)
        self._require_head()
        for submitted in ready:
            if found := self._result_of(submitted, self._running.pop(submitted)):
                return found
        for submitted, one in self._running.items():
            if late := self._late(one):
                del self._running[submitted]
                self._cancel(submitted)
                return TaskResult(one.attempt.task, error=late)
        return None

    def _cancel(self, submitted: Any) -> None:
        with suppress(self._ray.exceptions.RayError, TypeError):  # TypeError: its machine is gone
            self._ray.cancel(submitted, force=True)

    def _require_head(self) -> None:
        with suppress(OSError):
            _require_port(self._head)
            self._heard = monotonic()
        if monotonic() - self._heard > _SILENT_S:
            raise TraceqlError(
                f"the head of the Ray cluster, {self._head}, is gone; finished runs are in the "
                "lake, and the same command adds the rest once there is a cluster"
            )

    def _node_for(self, task: Task) -> str | None:
        """The machine that must run a task, if not all have the path it reads."""
        have = [one.node_id for one in self._machines if task.reads in one.sizes]
        if len(have) == len(self._machines):
            return None
        alive = alive_nodes(self._ray)
        busy = Counter(one.node for one in self._running.values())
        return min(have, key=lambda node: (node not in alive, busy[node]))

    def _result_of(self, submitted: Any, one: "_Running") -> TaskResult | None:
        """The result of a finished task; None if it has begun or is repeated."""
        self._moved = monotonic()
        attempt = one.attempt
        try:
            found = self._ray.get(next(submitted), timeout=_ANSWER_S)
        except self._ray.exceptions.RayTaskError as failure:
            return TaskResult(attempt.task, error=cannot_run(failure))
        except self._ray.exceptions.RayError as failure:
            times = f"was lost {attempt.number} times"
            return self._lost(attempt, f"its task {times}: {self._why(failure)}")
        if found is None:
            self._running[submitted] = one._replace(since=monotonic(), has_begun=True)
            return None
        return TaskResult(attempt.task, *found)

    def _why(self, failure: Exception) -> str:
        known = self._ray.exceptions
        kinds = {
            known.NodeDiedError: "the machine that ran it is gone",
            known.TaskUnschedulableError: "no machine that has the file is left",
            known.WorkerCrashedError: "its process was killed, perhaps for lack of memory",
            known.OutOfMemoryError: "its machine had too little memory",
        }
        return kinds.get(type(failure)) or reason(failure)

    def _late(self, one: "_Running") -> TaskLost | None:
        """The error of a task that is late; None if it is not."""
        task = one.attempt.task
        if one.has_begun:
            is_late = monotonic() - one.since > task.timeout_s
            return too_slow(task.timeout_s) if is_late else None
        if any(other.has_begun for other in self._running.values()):
            self._moved = monotonic()  # it may wait for that one
        if monotonic() - self._moved < self._wait_s:
            return None
        return TaskLost(
            f"no machine of the Ray cluster started it in {self._wait_s:,.0f} s; it needs a "
            f"processor and {SIZE.text(task.memory_bytes)} of memory"
        )


class _Running(NamedTuple):
    """A submitted task: since when it waits or runs, s, and the machine that it requires."""

    attempt: Attempt
    since: float
    node: str | None
    has_begun: bool = False


def _run(work: Callable[[], Any]) -> Iterator[tuple[Any, Exception | None] | None]:
    """Yields None when it begins, to separate waiting from running, and then the outcome."""
    yield None
    yield outcome(work)
