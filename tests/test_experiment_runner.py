"""The runner of experiments, on a stand-in for vLLM: order, resuming, and what goes wrong."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result
from experiment_runs import TESTS, repeats_of, statuses, use_stand_in
from stand_in_vllm import itl_s, ttft_s
from traces import hears_ctrl_c

from capture.cli.experiment import command
from capture.experiment.results import locked_results

pytestmark = pytest.mark.slow

PLAN = """
model: qwen3-tiny
dummy_weights: true
grid:
  tensor_parallel: [1, 2]
  batch: [1, 4]
  prompt_tokens: [64, 128]
  output_tokens: 16
repeats: 2
record: {profile: false}
"""
ALL = 2 * 2 * 2 * 2  # engines, batches, lengths, repeats


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-in was asked for."""
    use_stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    file = tmp_path / "log"
    file.touch()
    monkeypatch.setenv("STAND_IN_LOG", str(file))
    return file


def run(*words: str) -> Result:
    return CliRunner().invoke(command, ["plan.yaml", "-o", "out", *words])


def done(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def refusal(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    return line


def test_every_repeat_starts_each_server_once_and_measures_every_point(log: Path) -> None:
    told = done()
    assert list(statuses(Path("out")).values()) == ["complete"] * ALL
    lines = log.read_text().splitlines()
    assert sum(line.startswith("bench") for line in lines) == ALL
    assert f"[{ALL}/{ALL}]" in told
    starts = [line for line in lines if line.startswith("serve")]
    assert [set(starts[n : n + 2]) for n in (0, 2)] == [{"serve 1", "serve 2"}] * 2
    seeds = Counter(line.split()[-1] for line in lines if "seed" in line)
    assert seeds == {"1": 8, "2": 8}  # each repeat has prompts of its own
    folder = next(Path("out/points").glob("tp2-*")) / "batch4-in128-out16-n4" / "repeat-2"
    assert {file.name for file in folder.iterdir()} == {
        "bench.json", "config.json", "environment.json", "gpus.json", "log.txt", "metrics.json",
        "outputs.jsonl", "run.json", "summary.csv",
    }  # fmt: skip
    facts = repeats_of(Path("out"))[str(folder.relative_to("out/points"))]["experiment"]
    assert (facts["repeat"], facts["point"]["batch"], facts["point"]["gpus"]) == (2, 4, 2)
    assert facts["server"]["start_s"] > 0


def test_results_are_never_overwritten_and_resume_runs_nothing_twice(log: Path) -> None:
    done()
    before = log.read_text()
    assert "out has results already; add --resume" in refusal()
    assert "nothing is left to run" in done("--resume")
    assert log.read_text() == before
    with locked_results(Path("out"), resume=True):
        assert "another traceql experiment run is writing out; wait for it" in refusal("--resume")


def started(repeats: int, monkeypatch: pytest.MonkeyPatch) -> "subprocess.Popen[bytes]":
    """An experiment in a process of its own, when so many of its repeats are done."""
    monkeypatch.setenv("STAND_IN", "slow")
    words = [sys.executable, str(TESTS / "experiment_runs.py"), "plan.yaml", "-o", "out"]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, preexec_fn=hears_ctrl_c)
    while len(statuses(Path("out"))) < repeats:
        assert process.poll() is None
        time.sleep(0.05)
    return process


def test_a_killed_experiment_goes_on_and_no_point_is_lost_or_run_twice(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(5, monkeypatch)
    process.kill()
    process.wait()
    until = time.monotonic() + 20
    while _stand_ins() and time.monotonic() < until:
        time.sleep(0.05)
    assert not _stand_ins()  # servers and benchmarks end with the process that started them
    kept = statuses(Path("out"))
    log.write_text("")
    monkeypatch.delenv("STAND_IN")
    done("--resume")
    assert sum(line.startswith("bench") for line in log.read_text().splitlines()) == ALL - len(kept)
    assert list(statuses(Path("out")).values()) == ["complete"] * ALL
    assert not list(Path("out/points").rglob(".draft*"))


def _stand_ins() -> list[int]:
    name = str(TESTS / "stand_in_vllm.py")
    mine = os.environ["STAND_IN_LOG"]
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if name in process.info["cmdline"] and process.environ()["STAND_IN_LOG"] == mine:
                found.append(process.pid)
        except (psutil.Error, TypeError, KeyError):
            continue
    return found


def test_an_interrupted_experiment_ends_all_that_it_started(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(1, monkeypatch)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    assert not _stand_ins()
    assert set(statuses(Path("out")).values()) == {"complete"}


def test_a_point_that_runs_out_of_memory_fails_alone_and_is_run_again_only_on_request(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "fails-at:4")
    told = done("--set", "repeats=1")
    runs = repeats_of(Path("out"))
    assert Counter(run["status"] for run in runs.values()) == {"complete": 4, "failed": 4}
    failed = next(run for run in runs.values() if run["status"] == "failed")
    assert "out of GPU memory" in failed["reason"]
    assert "CUDA out of memory" in failed["experiment"]["log_tail"]["bench"][-1]
    assert "out: 4 failed repeats" in told
    assert log.read_text().count("serve") == 2  # the servers lived on
    monkeypatch.delenv("STAND_IN")
    assert "nothing is left to run" in done("--resume", "--set", "repeats=1")
    done("--resume", "--retry-failed", "--set", "repeats=1")
    assert set(statuses(Path("out")).values()) == {"complete"}
    assert "--retry-failed needs --resume" in run("--retry-failed").output


@pytest.mark.parametrize(
    ("wrong", "told", "starts"),
    [
        ("hangs-at:1", "it took longer than 1 s; raise point_timeout_s", 1),
        ("kills-at:1", "vllm bench ended with status -9", 1),
        ("dies-at:1", "the server ended with status", 3),
    ],
)
def test_points_after_a_benchmark_or_server_that_ended_are_measured(
    wrong: str, told: str, starts: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", wrong)
    done("--set", "repeats=1", "--set", "point_timeout_s=1", "--sweep", "tensor_parallel:1")
    runs = {path.split("/")[1]: run for path, run in repeats_of(Path("out")).items()}
    assert {name: run["status"] for name, run in runs.items()} == {
        "batch1-in128-out16-n1": "failed",
        "batch1-in64-out16-n1": "failed",
        "batch4-in128-out16-n4": "complete",
        "batch4-in64-out16-n4": "complete",
    }
    assert told in runs["batch1-in64-out16-n1"]["reason"]
    assert log.read_text().count("serve") == starts
    assert not _stand_ins()


def test_a_server_that_never_starts_costs_its_points_and_is_given_up(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "dies-at-start")
    done("--sweep", "tensor_parallel:1", "--set", "repeats=3")
    runs = repeats_of(Path("out"))
    assert Counter(run["status"] for run in runs.values()) == {"failed": 12}
    reasons = {path.split("/")[2]: run["reason"] for path, run in runs.items()}
    assert "the stand-in was told to die" in reasons["repeat-1"]
    assert reasons["repeat-3"].startswith("not run: its server failed to start in 2 repeats; ")


def test_a_full_disk_ends_the_experiment_with_one_line(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out/points/run.json")

    monkeypatch.setattr("capture.experiment.results.write_json", full)
    told = run().output.splitlines()[-1]
    assert told.startswith("traceql: cannot write out/points/run.json: the disk is full; fix that")
    monkeypatch.undo()


def test_a_dry_run_starts_nothing_and_writes_nothing(log: Path) -> None:
    told = done("--dry-run")
    assert "8 points on 2 engine configurations" in told
    assert "16 repeats to run, in 4 starts of a server: about 11 min" in told
    assert not Path("out").exists()
    assert log.read_text() == ""
    assert "batch 1, 99,999,999,999;" in done("--dry-run", "--sweep", "batch:1,99999999999")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--set", "record.tool=nsys"), "record.tool is nsys, which is not installed"),
        (("--model", "qwen3-none"), "qwen3-none is neither a folder nor a built-in architecture"),
        (("--sweep", "tensor_parallel:3"), "tensor_parallel 3 does not divide the 4 attention"),
        (("--ray", "auto"), "ray is not installed"),
    ],
)
def test_what_cannot_be_run_is_one_line_before_anything_starts(
    words: tuple[str, ...], told: str, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    assert told in refusal(*words)
    assert not Path("out").exists()


def test_numbers_of_a_repeat_are_those_of_the_benchmark(log: Path) -> None:
    done("--set", "repeats=1", "--sweep", "tensor_parallel:1;batch:4;prompt_tokens:128")
    (folder,) = (file.parent for file in Path("out").rglob("bench.json"))
    found = json.loads((folder / "metrics.json").read_text())["passes"]["unprofiled"]
    first, gap = ttft_s(4, 128, seed=1), itl_s(4)
    assert found["summary"]["ttft"]["p50"] == pytest.approx(first * 1e9, abs=1)
    assert found["summary"]["tpot"]["mean"] == pytest.approx(gap * 1e9, abs=1)
    assert found["summary"]["e2e"]["p99"] == pytest.approx((first + 15 * gap) * 1e9, abs=16)
    assert found["summary"]["output_tokens"] == 64
    assert [one["prompt_tokens"] for one in found["requests"]] == [128] * 4
    with (folder / "summary.csv").open(newline="") as file:
        rows = dict(csv.reader(file))
    assert float(rows["median_ttft_ms"]) == pytest.approx(first * 1e3)


def test_vllm_bench_latency_measures_each_point_with_an_engine_of_its_own(log: Path) -> None:
    done("--set", "model=qwen3-0.6b", "--set", "bench=latency", "--sweep", "tensor_parallel:1")
    assert list(statuses(Path("out")).values()) == ["complete"] * 2 * 2 * 2
    assert set(log.read_text().splitlines()) == {"import"}  # no server
    said = [json.loads(file.read_text()) for file in Path("out").rglob("bench.json")]
    assert all(one["avg_latency"] > 0 for one in said)
