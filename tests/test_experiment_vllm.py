"""An experiment with the real vLLM on a CPU: killed half-way, resumed, and complete."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from experiment_runs import repeats_of, statuses
from vllm_python import VLLM_PYTHON

import traceql

pytestmark = pytest.mark.vllm

_PLAN = """
model: qwen3-tiny
dummy_weights: true
engine: {max_model_len: 256, enforce_eager: true}
grid:
  batch: [1, 2]
  prompt_tokens: 32
  output_tokens: 8
repeats: 1
"""
_ALL = 2 * 2  # batches, a repeat and the one under the profiler


def _command(*more: str) -> list[str]:
    return [VLLM_PYTHON, "-m", "traceql", "experiment", "run", "plan.yaml", "-o", "out", *more]


def test_a_killed_experiment_is_completed_by_another_run(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(_PLAN)
    out = tmp_path / "out"
    with (tmp_path / "told").open("wb") as told:
        process = subprocess.Popen(_command(), cwd=tmp_path, stderr=told)
        while not statuses(out):
            assert process.poll() is None, (tmp_path / "told").read_text()
            time.sleep(0.1)
        servers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
    _, alive = psutil.wait_procs(servers, timeout=60)
    assert not alive
    kept = {path: run["start_unix_ns"] for path, run in repeats_of(out).items()}
    done = subprocess.run(
        _command("--resume"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} repeat" in done.stderr
    assert list(statuses(out).values()) == ["complete"] * _ALL
    again = {path: run["start_unix_ns"] for path, run in repeats_of(out).items()}
    assert {path: again[path] for path in kept} == kept
    for folder in out.glob("points/*/*/repeat-*"):
        _has_the_numbers_that_vllm_printed(folder)
    for folder in out.glob("points/*/*/profiled"):
        _can_be_loaded(folder, tmp_path)


def _has_the_numbers_that_vllm_printed(folder: Path) -> None:
    printed = dict(re.findall(r"^(.+?):\s+([\d.]+)\s*$", (folder / "log.txt").read_text(), re.M))
    passed = json.loads((folder / "metrics.json").read_text())["passes"]["unprofiled"]
    batch = int(re.match(r"batch(\d+)", folder.parent.name)[1])  # type: ignore[index]
    assert int(printed["Successful requests"]) == len(passed["requests"]) == batch
    assert int(printed["Total input tokens"]) == 32 * batch
    assert int(printed["Total generated tokens"]) == passed["summary"]["output_tokens"] == 8 * batch
    for title, name in (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2EL", "e2e")):
        ours = passed["summary"][name]
        assert float(printed[f"Mean {title} (ms)"]) == pytest.approx(ours["mean"] / 1e6, abs=0.006)
        assert float(printed[f"Median {title} (ms)"]) == pytest.approx(ours["p50"] / 1e6, abs=0.006)
        assert float(printed[f"P99 {title} (ms)"]) == pytest.approx(ours["p99"] / 1e6, abs=0.006)


def _can_be_loaded(folder: Path, scratch: Path) -> None:
    database = traceql.load([folder], scratch / f"{folder.parent.name}.duckdb").database
    with traceql.open(database) as trace:
        assert trace.run("quality.ledger", failed=True).rows() == []
        assert len(trace.sql("SELECT * FROM step")) > 10
