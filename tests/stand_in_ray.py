"""A stand-in for Ray, which runs tasks in this process as soon as they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any


class TaskLost(Exception):
    """What Ray raises for a task whose process died."""


@dataclass
class StandInRay:
    """A cluster.

    Attributes:
        resources: those of each node.
        loses: runs what of a task is done before its process dies; None if no task is lost.
        shares: what of a node each task has asked for.
        joined: whether this process is in the cluster.
    """

    resources: list[dict[str, float]]
    loses: Callable[[Any], object] | None = None
    shares: list[dict[str, int]] = field(default_factory=list)
    joined: bool = False

    def module(self) -> ModuleType:
        found = ModuleType("ray")
        found.__dict__.update(
            init=self._init,
            shutdown=self._shutdown,
            nodes=lambda: (
                [{"Alive": True, "Resources": one} for one in self.resources]
                + [{"Alive": False, "Resources": {"CPU": 999.0, "GPU": 999.0}}]
            ),
            remote=lambda **_options: self._task,
            wait=lambda tasks, num_returns: (tasks[:num_returns], tasks[num_returns:]),
            get=lambda task: task(),
            exceptions=SimpleNamespace(RayError=TaskLost),
        )
        return found

    def _init(self, address: str, **_options: object) -> None:
        if address != "auto":
            raise ConnectionError(f"could not find {address}\nmore lines")
        self.joined = True

    def _shutdown(self) -> None:
        self.joined = False

    def _task(self, function: Callable[[Any], object]) -> Any:
        def options(**share: int) -> Any:
            self.shares.append(share)
            return SimpleNamespace(remote=lambda run: self._begun(function, run))

        return SimpleNamespace(options=options)

    def _begun(self, function: Callable[[Any], object], run: Any) -> Callable[[], object]:
        assert self.joined
        if self.loses:
            self.loses(run)
            return lambda: self._raise()
        found = function(run)
        return lambda: found

    def _raise(self) -> object:
        raise TaskLost("The task failed.\n\nThe worker died unexpectedly.")
