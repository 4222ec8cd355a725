"""Points whose weights do not fit the GPUs are left out of an experiment, and no others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from experiment_runs import use_stand_in

from capture.experiment import runner
from capture.experiment.feasibility import Feasibility
from capture.experiment.plan_document import Override, parse_set, read_plan
from capture.experiment.points import points_of
from capture.models import built_in_config
from capture.versions import InstalledVllm
from traceql.cli.commands import weight_bytes

GPU_BYTES = 24 * 10**9
LARGE = built_in_config("qwen3-32b") or {}
EXPERTS = built_in_config("qwen3-30b-a3b") or {}


def skipped(config: dict[str, Any], *settings: str, **changed: Any) -> dict[int, str]:
    """The reason for each tensor-parallel size that is left out."""
    given = [parse_set("grid.tensor_parallel=[1, 2, 4]"), *map(parse_set, settings)]
    model = Override(("model",), "qwen3-32b", "--model")
    plan = read_plan(None, preset="quick", overrides=[model, *given])
    known = replace(Feasibility(config, 8, GPU_BYTES, weight_bytes), **changed)
    found = points_of(plan, known.reason)
    return {one.point.engine.tp: one.reason for one in found.skipped}


def test_weights_that_do_not_fit_are_the_reason() -> None:
    # 64 layers of 5120: heads 64 and 8 of 128, MLP 25600; two tables of 151,936 rows; two bytes.
    layer = 5120 * 128 * (64 + 2 * 8) + 64 * 128 * 5120 + 3 * 5120 * 25_600
    whole = 2 * (64 * layer + 2 * 151_936 * 5120)
    assert weight_bytes(LARGE, tp=1, pp=1, dp=1, ep=False) == whole
    told = "each GPU needs {:.1f} GB for weights, and the largest has 24.0 GB"
    assert skipped(LARGE) == {1: told.format(whole / 1e9), 2: told.format(whole / 2e9)}


def test_stages_share_the_weights_and_replicas_do_not() -> None:
    assert skipped(LARGE, "grid.pipeline_parallel=2").keys() == {1}
    assert skipped(LARGE, "grid.data_parallel=2").keys() == {1, 2}


def test_experts_may_be_spread_over_all_replicas() -> None:
    alone = weight_bytes(EXPERTS, tp=1, pp=1, dp=1, ep=False)
    spread = weight_bytes(EXPERTS, tp=1, pp=1, dp=4, ep=False)
    assert alone is not None
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert alone - (spread or 0) == pytest.approx(experts * 3 / 4, rel=0.001)


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        (("engine.quantization=fp8",), {}),
        (("engine.cpu_offload_gb=64",), {}),
        (("engine.hf_overrides={num_hidden_layers: 2}",), {}),
        ((), {"gpu_bytes": None}),
        ((), {"weight_bytes": None}),
        ((), {"gpu_bytes": 66 * 10**9}),
    ],
)
def test_what_is_not_known_is_no_reason(settings: tuple[str, ...], known: dict[str, Any]) -> None:
    assert skipped(LARGE, *settings, **known) == {}


@pytest.mark.parametrize("config", [{}, {"model_type": "mamba"}, LARGE | {"dtype": "float32"}])
def test_weights_of_an_unknown_model_are_not_guessed(config: dict[str, Any]) -> None:
    assert weight_bytes(config, tp=1, pp=1, dp=1, ep=False) is None


def test_the_command_leaves_them_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "installed_vllm", lambda: InstalledVllm("0.32.0", "vllm"))
    monkeypatch.setattr(runner, "visible_gpus", lambda: 4)
    monkeypatch.setattr(runner, "largest_gpu_bytes", lambda: GPU_BYTES)
    done = called(
        *("experiment", "run", "--preset", "quick", "--model", "qwen3-32b", "--dry-run"),
        *("--set", "dummy_weights=true", "--sweep", "tensor_parallel:1,4"),
    )
    told = done.stderr.decode()
    assert done.returncode == 0, told
    assert "4 points: each GPU needs 65.5 GB for weights, and the largest has 24.0 GB" in told
    assert "4 points on 1 engine configuration" in told
