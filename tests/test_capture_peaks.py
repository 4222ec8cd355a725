"""Measuring peaks without a GPU: its arithmetic, its refusals, and its parts on a CPU."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import refusal

from capture.errors import GpuBusy, ModelNotFound
from capture.models import configuration, model_products
from capture.peaks import timing as gpu_module
from capture.peaks.timing import Rounds, require_idle, timed, visible_gpus
from traceql.database.loading.inputs import peaks_document

ROOT = Path(__file__).parent.parent
MEASURE = ("experiment", "peaks", "measure")
_PYTHON = os.environ.get("TRACEQL_VLLM_PYTHON", str(ROOT / ".venv" / "vllm" / "bin" / "python"))


def unknown_state() -> dict[str, int | None]:
    return {"sm_clock_mhz": None, "throttle_reasons": None}


def clockwork(round_ns: Sequence[float], launches: int = 1) -> tuple[Rounds, list[int]]:
    """Work whose rounds take these times, the last one from then on; and the rounds started."""
    started: list[int] = []

    def start(rounds: int) -> Callable[[], float]:
        each = round_ns[min(len(started), len(round_ns) - 1)]
        started.append(rounds)
        return lambda: each * rounds

    return Rounds(start, launches), started


@pytest.mark.parametrize(
    ("round_ns", "launches", "rounds"),
    [
        (2_000.0, 1, 2000),  # 4 ms
        (200_000.0, 100, 20),
        (1_000_000.0, 10, 4),
        (10_000_000.0, 1, 2),  # no more than 20 ms
        (50_000_000.0, 2, 1),
    ],
)
def test_a_sample_has_at_least_4_ms_and_20_launches_unless_they_are_long(
    round_ns: float, launches: int, rounds: int
) -> None:
    work, started = clockwork([round_ns], launches)
    found = timed(work, state=unknown_state)
    assert started == [1, 1, *[rounds] * 9]
    assert found["launches"] == 9 * rounds * launches
    assert found["ns"] == pytest.approx(round_ns / launches)
    assert found["mad_ns"] == 0


def test_the_median_counts_and_the_first_round_does_not() -> None:
    work, _ = clockwork([9e9, 1e6, 1e6, 5e6, 1e6, 2e6, 3e6, 9e6, 1e6, 2e6, 1e6])
    found = timed(work, state=unknown_state)
    assert (found["ns"], found["mad_ns"]) == (2e6, 1e6)


def shapes(config: dict[str, Any], tp: int = 1) -> dict[str, tuple[int, int]]:
    return {one.role: (one.k, one.n) for one in model_products(config, tp)}


def test_products_of_a_model_but_for_experts_are_divided_among_the_ranks() -> None:
    # Qwen3-8B: 32 heads and 8 KV heads of 128, 12,288 wide, 151,936 words.
    config = configuration("qwen3-8b")
    assert shapes(dict(config)) == {
        "qkv_proj": (4096, (32 + 2 * 8) * 128), "o_proj": (4096, 4096),
        "gate_up_proj": (4096, 24576), "down_proj": (12288, 4096), "lm_head": (4096, 151936),
    }  # fmt: skip
    assert shapes(dict(config), 4) == {
        "qkv_proj": (4096, (8 + 2 * 2) * 128), "o_proj": (1024, 4096),
        "gate_up_proj": (4096, 6144), "down_proj": (3072, 4096), "lm_head": (4096, 37984),
    }  # fmt: skip
    assert {one.dtype for one in model_products(config, 1)} == {"bf16"}
    # Qwen3-30B-A3B: 32 heads of 128 (not 2048 / 32), 4 KV heads, which are copied, and experts.
    config = configuration("Qwen/Qwen3-30B-A3B")
    assert shapes(dict(config), 8) == {
        "qkv_proj": (2048, (4 + 2) * 128), "o_proj": (512, 2048), "lm_head": (2048, 18992)
    }  # fmt: skip


def test_a_model_that_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="32 attention heads cannot be divided among 3 ranks"):
        model_products(configuration("qwen3-8b"), 3)
    file = tmp_path / "config.json"
    file.write_text('{"hidden_size": 64}')
    with pytest.raises(ModelNotFound, match=r"the model's config.json has no num_attention_heads"):
        model_products(configuration(str(file)), 1)


def nvml(**gpu: Any) -> Any:
    """NVML on a machine with two equal GPUs, whose handles are their numbers."""
    used, busy = gpu.get("used", 600 * 2**20), gpu.get("busy", 0)
    return SimpleNamespace(
        NVML_CLOCK_SM=1,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetComputeRunningProcesses=lambda _handle: gpu.get("processes", []),
        nvmlDeviceGetMemoryInfo=lambda _handle: SimpleNamespace(used=used),
        nvmlDeviceGetUtilizationRates=lambda _handle: SimpleNamespace(gpu=busy),
        nvmlDeviceGetClockInfo=lambda handle, _clock: 1000 + handle,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _handle: 4,
    )


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        ({}, None),
        ({"processes": [SimpleNamespace(pid=77)]}, "process 77 uses GPU 0"),
        ({"used": 20 * 2**30}, "20 GiB of GPU 0 are in use"),
        ({"busy": 93}, "GPU 0 is busy for 93% of the time"),
    ],
)
def test_a_gpu_that_others_use_is_refused(
    gpu: dict[str, Any], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_module, "_SETTLES_S", 0.0)
    gpus = visible_gpus(nvml(**gpu))
    if reason is None:
        require_idle(gpus)
        return
    with pytest.raises(GpuBusy, match=f"^{reason}; end the other program, or choose another GPU"):
        require_idle(gpus)


def test_what_cannot_be_measured_or_written_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, reason in (
        (["-o", "."], "traceql: . is a folder; name a file with -o"),
        (["-o", "no/peaks.json"], "traceql: there is no folder no; create it, or change -o"),
        (["--model", "none"], "traceql: none is neither a config.json, nor a model folder, nor"),
    ):
        assert refusal(*MEASURE, *arguments).startswith(reason)
    monkeypatch.setattr("capture.peaks.measure.util.find_spec", lambda _name: None)
    assert refusal(*MEASURE).startswith("traceql: PyTorch is not installed here; run this where")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.vllm
def test_measurements_run_on_a_cpu_and_can_be_loaded(tmp_path: Path) -> None:
    """With PyTorch, but without CUDA: see peaks_on_cpu.py."""
    done = subprocess.run(
        [_PYTHON, ROOT / "tests" / "peaks_on_cpu.py"],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    first, second = found["collectives"]
    assert [one["ns"] for one in first] == [one["ns"] for one in second]
    assert [(one["op"], one["bytes"]) for one in first] == [
        (op, size)
        for size in (2**10, 2**23, 2**10)
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    ]
    assert [one["kernel_ns"] for one in first] == [20] * 8 + [None] * 4
    assert [one["fastest_ns"] for one in first] == [15] * 8 + [None] * 4
    assert [(one["op"], one["bytes"]) for one in found["memory"]] == [
        ("copy", 2**21), ("read", 2**20),
    ]  # fmt: skip
    assert [(p["role"], p["m"], p["k"], p["n"], p["load"]) for p in found["products"]] == [
        *[(None, 64, 128, 32, "burst"), (None, 64, 128, 32, "sustained")] * 2,
        ("o_proj", 1, 128, 64, "sustained"), ("o_proj", 4, 128, 64, "sustained"),
        ("o_proj", 16, 128, 64, "burst"),
        ("lm_head", 1, 64, 256, "sustained"), ("lm_head", 4, 64, 256, "sustained"),
    ]  # fmt: skip
    assert [p["dtype"] for p in found["products"]] == ["bf16"] * 2 + ["int8"] * 2 + ["bf16"] * 5
    assert {p["fastest_ns"] for p in found["products"] if p["load"] == "burst"} == {35}
    bursts = found.pop("bursts")
    assert bursts["started"] == [1, 1, *[13] * 9, 1, 1, 13]  # 3.9 ms
    assert bursts["rests"] == [0.05] * 10
    assert bursts["row"] == {
        "ns": 47, "mad_ns": 0, "fastest_ns": 35, "launches": 9 * 13 * 2, "sm_clock_mhz": 5,
    }  # fmt: skip
    assert bursts["error"] == "the profiler saw 51 kernels of 26 launches"
    document = {
        "schema_version": 2, "device_name": "a CPU", "measured": "2026-11-22T20:00:00+00:00",
        "kernel": None, **found, "collectives": first,
    }  # fmt: skip
    _, peaks = peaks_document(json.dumps(document))
    assert (len(peaks.memory), len(peaks.products), len(peaks.collectives)) == (2, 9, 12)
