"""Joins a Ray cluster, and asks its machines what they have."""

import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any

from traceql.errors import TraceqlError, reason
from traceql.runs.lake.sizes import bytes_at
from traceql.util.version import __version__

_PORT_S = 10.0
_JOIN_S = 60.0
_LOOK_S = 60.0


@dataclass(frozen=True)
class Machine:
    """A node of the cluster.

    Attributes:
        node_id: by which Ray knows it.
        sizes: bytes of the files at each path that it has, unpacked, about.
    """

    node_id: str
    sizes: Mapping[Path, int]


def joined(address: str) -> Any:
    """The module ray, when this process is in the cluster at an address.

    Raises:
        TraceqlError: ray is not installed, or no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
    try:
        import ray
    except ImportError:
        raise TraceqlError("ray is not installed; run pip install 'traceql[ray]'") from None
    with _handlers_kept():
        failure = _failure_to_join(ray, address)
    if failure:
        raise TraceqlError(
            f"no Ray cluster answers at {address}: {failure}; run this on one of its machines, "
            "with the HOST:PORT of ray start, and with its token if it has one"
        )
    return ray


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Keeps what is done on SIGTERM, for which Ray prints a stack and exits."""
    kept = signal.getsignal(signal.SIGTERM)
    yield
    if current_thread() is main_thread():
        signal.signal(signal.SIGTERM, kept)


def _failure_to_join(ray: Any, address: str) -> str | None:
    """Why this process is not in the cluster; None if it is."""
    if address.startswith("ray://"):
        return "it is a Ray client server, which cannot run these tasks"
    told: list[str | None] = []

    def join() -> None:
        try:
            _require_port(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            told.append(None)
        except Exception as error:
            told.append(reason(error))

    joining = Thread(target=join, daemon=True)  # Ray may wait for minutes
    joining.start()
    joining.join(_JOIN_S)
    return told[0] if told else f"no answer in {_JOIN_S:.0f} s"


def _require_port(address: str) -> None:
    """Raises OSError if nothing listens at a host and port."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()


def head_of(ray: Any) -> str:
    """Host and port of the node without which there is no cluster."""
    return str(ray.get_runtime_context().gcs_address)


def answers(address: str) -> bool:
    """Whether something listens at a host and port."""
    with suppress(OSError):
        _require_port(address)
        return True
    return False


def alive_nodes(ray: Any) -> set[str]:
    """The machines that there are now."""
    return {one["NodeID"] for one in _alive(ray)}


def most_memory(ray: Any) -> int:
    """The memory of the machine that has most, bytes."""
    return int(max((one["Resources"].get("memory", 0) for one in _alive(ray)), default=0))


def processors(ray: Any) -> int:
    """The processors of all machines."""
    return int(sum(one["Resources"].get("CPU", 0) for one in _alive(ray)))


def machines(ray: Any, paths: Sequence[Path]) -> list[Machine]:
    """The machines that answer, and which of these paths they have.

    Raises:
        TraceqlError: one of them has not this version of traceql.
    """
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
        except ray.exceptions.RayError:  # the machine is gone
            continue
        if version != __version__:
            where = node["NodeManagerHostname"]
            raise TraceqlError(f"{where} has traceql {version}, and this machine {__version__}")
        found.append(Machine(node["NodeID"], sizes))
    return found


def cannot_run(failure: Exception) -> TraceqlError:
    """What a task raised before it reached traceql, in one line."""
    last = str(failure).strip().splitlines()[-1]
    return TraceqlError(
        f"a machine of the Ray cluster cannot run a task: {last}; all need this traceql"
    )


def on_machine(ray: Any, node_id: str) -> Any:
    """The strategy of Ray that runs a task on one machine alone."""
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
