"""Experiments on a Ray cluster, for which a stand-in runs the tasks here."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from experiment_runs import repeats_of, statuses, use_stand_in
from stand_in_ray import StandInRay

from capture.cli.experiment import command
from capture.experiment import runner
from capture.versions import InstalledVllm

pytestmark = pytest.mark.slow

PLAN = """
model: qwen3-tiny
dummy_weights: true
grid: {tensor_parallel: [1, 2], batch: [1, 4], prompt_tokens: 64, output_tokens: 16}
repeats: 2
record: {profile: false}
"""


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


def test_a_task_asks_for_the_gpus_of_its_engine(
    cluster: StandInRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "installed_vllm", lambda: InstalledVllm("0.32.0", "vllm"))
    run()
    assert Counter(share["num_gpus"] for share in cluster.shares) == {1: 2, 2: 2}


def test_what_does_not_fit_the_largest_node_is_left_out(
    cluster: StandInRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "installed_vllm", lambda: InstalledVllm("0.32.0", "vllm"))
    told = run("--dry-run", "--sweep", "tensor_parallel:2,4").output
    assert "left out: 2 points: it needs 4 GPUs (TP x PP x DP), and 2 are visible" in told
    assert "2 points on 1 engine configuration" in told


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
        ("127.0.0.1:1", "[Errno 111] Connection refused"),
        ("ray://127.0.0.1:1", "[Errno 111] Connection refused"),
    ],
)
def test_no_cluster_is_one_line_and_nothing_is_written(address: str, reason: str) -> None:
    result = run(address=address)
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.endswith(f"no Ray cluster answers at {address}: {reason}")
    assert not Path("out").exists()
