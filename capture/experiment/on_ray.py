"""Runs the blocks of an experiment as tasks of a Ray cluster."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from capture.errors import CaptureError

if TYPE_CHECKING:
    from capture.experiment.account import Account
    from capture.experiment.block import BlockRun, Done


def on_ray(address: str) -> Callable[[Sequence["BlockRun"], "Account"], None]:
    """Returns a function that runs blocks on a cluster, as many at once as have GPUs.

    Each block is a task that asks for the GPUs of its engine, which must fit one node. The nodes
    need this environment, and the folder of results at the same path.
    """

    def run_blocks(runs: Sequence["BlockRun"], account: "Account") -> None:
        import ray

        try:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise CaptureError(f"no Ray cluster answers at {address}: {first}") from None
        try:
            has_gpus = ray.cluster_resources().get("GPU", 0) > 0
            task = ray.remote(max_retries=0)(_run)
            waiting = {
                task.options(num_gpus=run.block.engine.gpus if has_gpus else 0).remote(run): run
                for run in runs
            }
            while waiting:
                (ended,), _ = ray.wait(list(waiting), num_returns=1)
                run = waiting.pop(ended)
                _settle(ray, ended, run, account)
        finally:
            ray.shutdown()

    return run_blocks


def _settle(ray: Any, ended: Any, run: "BlockRun", account: "Account") -> None:
    """Tells what a task did; a task that was lost leaves failed repeats."""
    told = set()
    try:
        for done in ray.get(ended):
            told.add(done.point.path)
            account.tell(done)
    except ray.exceptions.RayError as error:
        first = str(error).strip().splitlines()[-1]
        left = [point for point in run.block.points if point.path not in told]
        run.fail(f"its Ray task was lost: {first}", account.tell, left)


def _run(run: "BlockRun") -> list["Done"]:
    done: list[Done] = []
    run.run(done.append, lambda _message: None)
    return done
