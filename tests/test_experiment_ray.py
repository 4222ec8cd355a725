"""Experiments on a Ray cluster, for which a stand-in runs the tasks here."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from experiment_runs import repeats_of, statuses, use_stand_in

from capture.cli.experiment import command
from capture.environment import InstalledVllm
from capture.experiment import runner

pytestmark = pytest.mark.slow

PLAN = """
model: qwen3-tiny
dummy_weights: true
grid: {tensor_parallel: [1, 2], batch: [1, 4], prompt_tokens: 64, output_tokens: 16}
repeats: 2
record: {profile: false}
"""


class TaskLost(Exception):
    """What Ray raises for a task whose process died."""


@dataclass
class StandInRay:
    """A stand-in for Ray, which runs tasks in this process as soon as they are submitted."""

    resources: list[dict[str, float]]  # of each node
    loses: Callable[[Any], object] | None = None  # runs what is done before a task is lost
    shares: list[dict[str, int]] = field(default_factory=list)  # of a node, for each task
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
        found = (self.loses or function)(run)

        def result() -> object:
            if self.loses:
                raise TaskLost("The task failed.\n\nThe worker died unexpectedly.")
            return found

        return result


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInRay:
    """Two nodes, the larger one with 8 processors and 2 GPUs."""
    found = StandInRay([{"CPU": 2.0}, {"CPU": 8.0, "GPU": 2.0}])
    monkeypatch.setitem(sys.modules, "ray", found.module())
    use_stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log"))
    return found


def run(*words: str, address: str = "auto") -> Result:
    return CliRunner().invoke(command, ["plan.yaml", "-o", "out", "--ray", address, *words])


def test_each_start_of_a_server_is_a_task_that_has_a_node_without_gpus_for_itself(
    cluster: StandInRay,
) -> None:
    assert run().exit_code == 0
    assert list(statuses(Path("out")).values()) == ["complete"] * 8
    assert cluster.shares == [{"num_cpus": 8}] * 4
    assert not cluster.joined


def test_a_task_has_the_gpus_of_its_engine_and_what_fits_no_node_is_left_out(
    cluster: StandInRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "installed_vllm", lambda: InstalledVllm("0.32.0", "vllm"))
    told = run("--dry-run", "--sweep", "tensor_parallel:2,4").output
    assert "left out: 2 points: it needs 4 GPUs (TP x PP x DP), and 2 are visible" in told
    run()
    assert Counter(share["num_gpus"] for share in cluster.shares) == {1: 2, 2: 2}


def test_what_a_lost_task_had_completed_stays(cluster: StandInRay) -> None:
    def half(one: Any) -> None:
        block = replace(one.block, points=one.block.points[:1])
        replace(one, block=block).run(lambda _done: None, lambda _message: None)

    cluster.loses = half
    assert "4 failed repeats" in run().output
    found = repeats_of(Path("out"))
    assert Counter(one["status"] for one in found.values()) == {"complete": 4, "failed": 4}
    reasons = {one["reason"] for one in found.values() if one["status"] == "failed"}
    assert reasons == {"its Ray task was lost: The worker died unexpectedly."}
    cluster.loses = None
    assert run("--resume", "--retry-failed").exit_code == 0
    assert list(statuses(Path("out")).values()) == ["complete"] * 8


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("elsewhere", "could not find elsewhere"),
        ("ray://127.0.0.1:1", "[Errno 111] Connection refused"),
    ],
)
def test_no_cluster_is_one_line_and_nothing_is_written(address: str, reason: str) -> None:
    result = run(address=address)
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.endswith(f"no Ray cluster answers at {address}: {reason}")
    assert not Path("out").exists()
