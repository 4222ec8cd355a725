"""Capture without an engine: workloads, latencies, refusals, and run directories that load."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from command_line import refusal
from recorded_runs import answer, run_directory

import traceql
from capture.engine_options import (
    EngineOptions,
    engine_arguments,
    parse_engine_args,
    with_detailed_annotation,
)
from capture.environment import checked, checkout, network_adapters, variables
from capture.errors import CaptureError, UnsupportedVllm, WorkloadInvalid
from capture.metrics import distribution, pass_metrics
from capture.profilers import ProfilerOptions, PyTorch
from capture.run_directory import RunDirectory
from capture.server import model_config, parallel_layout, trace_folder, with_parallel_ranks
from capture.supervise import explained
from capture.worker_extension import computed_tokens
from capture.workload import (
    Chunk,
    Pass,
    Request,
    Workload,
    drive,
    file_workload,
    random_workload,
    require_fitting,
)

_MS = 1_000_000


def test_workloads_are_the_same_each_time_and_differ_by_seed() -> None:
    one, same, other = (random_workload(vocab_size=1024, mix="chat", seed=s) for s in (0, 0, 1))
    assert one == same != other
    assert (len(one.requests), one.concurrency) == (64, 16)
    assert {len(r.prompt) for r in one.requests} == {60, 150, 400, 900, 1800}


def test_a_prompts_file_holds_text_and_token_ids(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("[1, 2, 3]\n\nWhat is [4]?\n[]\n")
    workload = file_workload(file, output_tokens=7, concurrency=None)
    assert [r.prompt for r in workload.requests] == [[1, 2, 3], "What is [4]?", "[]"]
    assert {r.output_tokens for r in workload.requests} == {7}
    file.write_text("\n")
    with pytest.raises(WorkloadInvalid, match="no prompts"):
        file_workload(file, output_tokens=None, concurrency=None)


def test_requests_that_do_not_fit_the_model_are_refused() -> None:
    workload = random_workload(vocab_size=100, prompts=1, prompt_tokens=10, output_tokens=6)
    require_fitting(workload, max_model_len=16, vocab_size=100)
    with pytest.raises(WorkloadInvalid, match=r"10 \+ 6 tokens, but the model allows 15"):
        require_fitting(workload, max_model_len=15, vocab_size=100)
    with pytest.raises(WorkloadInvalid, match="outside the model's vocabulary, 0 to 11"):
        require_fitting(workload, max_model_len=16, vocab_size=12)


def test_no_more_requests_are_in_flight_than_wanted() -> None:
    in_flight, most = 0, 0

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0.001)
        yield Chunk(1, [5])
        in_flight -= 1

    requests = [Request(n, f"r{n}", [1], 1) for n in range(7)]
    measured = asyncio.run(drive(Workload(requests, 3, None, None), stream))
    assert (most, len(measured.answers)) == (3, 7)
    assert [a.token_ids for a in measured.answers] == [[5]] * 7


def test_latencies_are_those_of_their_definitions() -> None:
    measured = pass_metrics(Pass([answer("a", 100, 110, 114, 122)], 100 * _MS, 122 * _MS), None)
    (request,) = measured["requests"]
    assert (request["ttft"], request["tpot"], request["e2e"]) == (10 * _MS, 6 * _MS, 22 * _MS)
    assert request["itl"] == [4 * _MS, 8 * _MS]
    assert measured["summary"]["output_tokens_per_s"] == pytest.approx(3 / 0.022)
    assert distribution([4, 1, 3, 2]) == {
        "mean": 2.5, "p50": 2.5, "p90": pytest.approx(3.7), "p99": pytest.approx(3.97),
    }  # fmt: skip
    assert distribution([]) is None


def test_engine_arguments_are_json_or_text() -> None:
    pairs = ["max-model-len=8192", "quantization=fp8", "enable_prefix_caching=False", 'x={"a": 1}']
    assert parse_engine_args(pairs) == {
        "max_model_len": 8192, "quantization": "fp8", "enable_prefix_caching": False,
        "x": {"a": 1},
    }  # fmt: skip
    with pytest.raises(CaptureError, match="name=value"):
        parse_engine_args(["max_model_len"])


def test_an_unsupported_vllm_is_named_with_the_range() -> None:
    for known in ("0.25.0rc1", "0.32.1+cpu"):
        assert checked(known, "vllm").warning is None
    for unknown in ("0.33.0", "mine"):
        assert "newer" in (checked(unknown, "vllm").warning or ""), unknown
    with pytest.raises(UnsupportedVllm, match=r"0\.24\.1 is too old.*0\.25 to 0\.32"):
        checked("0.24.1", "vllm")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--profiler-config", '{"profiler": "torch", "torch_profiler_dir": "/traces"}'],
        ["--profiler-config.torch_profiler_dir=/traces"],
    ],
)
def test_a_servers_trace_folder_is_read_from_its_command(arguments: list[str]) -> None:
    assert trace_folder(["vllm", "serve", "m", *arguments, "--port", "1"]) == Path("/traces")
    assert trace_folder(["vllm", "serve", "m", "--port", "1"]) is None


def test_failures_name_the_fix_or_the_root_cause(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n")
    assert "out of GPU memory: raise --tp" in explained("EngineDeadError: see stack trace", log)
    hearsay = "RuntimeError: Engine core initialization failed. See root cause above."
    log.write_text(f"(Worker pid=3) ERROR ValueError: heads do not divide\n{hearsay}\n")
    said = explained(hearsay, log)
    assert said == f"the engine failed: ValueError: heads do not divide (log: {log})"
    assert explained("EngineGenerateError: ", log) == said
    log.write_text("ValueError: To serve at least one request with max seq len (40960)\n")
    assert "lower --engine-arg max_model_len" in explained("EngineDeadError: see stack trace", log)


def test_a_servers_ranks_are_placed_as_its_command_line_says() -> None:
    layout = parallel_layout(["vllm", "serve", "m", "-tp", "2", "--pipeline-parallel-size=2"])
    assert layout == {"tp": 2, "pp": 2, "dp": 1, "ep": False}
    ranks = with_parallel_ranks([{"rank": n} for n in range(4)], layout)
    assert [(r["tp_rank"], r["pp_rank"]) for r in ranks] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert with_parallel_ranks([{"rank": 0}], layout) == [{"rank": 0}]  # others wrote no trace


def test_the_model_of_a_server_is_found_in_its_folder_or_this_hosts_hub_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = tmp_path / "hub" / "models--Qwen--Qwen3-8B"
    for folder, layers in (cached / "snapshots" / "abc", 36), (tmp_path / "model", 4):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"num_hidden_layers": layers}))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    assert model_config({"root": "Qwen/Qwen3-8B"}) == {"num_hidden_layers": 36}
    assert model_config({"root": str(tmp_path / "model")}) == {"num_hidden_layers": 4}
    assert model_config({"root": "Qwen/Qwen3-4B"}) is None
    assert model_config({"root": "/no/such/folder"}) is None


def test_active_ports_of_network_adapters_are_recorded(tmp_path: Path) -> None:
    for name, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        port = tmp_path / name / "ports" / "1"
        port.mkdir(parents=True)
        files = {"state": state, "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}
        for file, text in files.items():
            (port / file).write_text(f"{text}\n")
    assert network_adapters(tmp_path) == [
        {"name": "mlx5_0", "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}
    ]


def test_a_recording_notes_the_commit_of_its_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        return subprocess.check_output(["git", *own, *arguments], cwd=tmp_path, text=True).strip()

    assert checkout(tmp_path) is None
    git("init", "--quiet", "--initial-branch", "fast-norm")
    assert checkout(tmp_path) is None  # nothing is committed
    (tmp_path / "norm.py").write_text("slow")
    git("add", "norm.py")
    git("commit", "--quiet", "--message", "slow")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "untracked").write_text("")
    commit = git("rev-parse", "HEAD")
    clean = {"commit": commit, "branch": "fast-norm", "dirty": False}
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))  # as in a hook of another checkout
    assert checkout(tmp_path / "below") == clean
    monkeypatch.delenv("GIT_DIR")
    (tmp_path / "norm.py").write_text("fast")
    assert checkout(tmp_path) == clean | {"dirty": True}
    git("checkout", "--quiet", "--detach")
    assert checkout(tmp_path) == {"commit": commit, "branch": None, "dirty": True}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout(tmp_path) is None  # there is no git


def test_a_server_that_does_not_answer_or_a_folder_in_use_is_one_line(tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = refusal("capture", "attach", "http://127.0.0.1:9", "-o", run)
    assert said.startswith("traceql: no vLLM server answers at http://127.0.0.1:9")
    assert not run.exists()
    run.mkdir()
    (run / "mine.txt").touch()
    with pytest.raises(CaptureError, match="choose another folder with -o"):
        RunDirectory.create(run, {})
    assert [f.name for f in run.iterdir()] == ["mine.txt"]


def test_a_loaded_run_has_its_ranks_requests_and_throttling(tmp_path: Path) -> None:
    loaded = traceql.load([run_directory(tmp_path / "run")], tmp_path / "run.duckdb")
    with traceql.open(loaded.database) as trace:
        rows = trace.sql("SELECT rank, dp_rank, world_size FROM trace ORDER BY rank").rows()
        assert [tuple(row.values()) for row in rows] == [(0, 0, 2), (1, 1, 2)]
        rows = trace.run("serving.requests").rows()
        found = [(r["request_id"], r["ts"], r["steps"], r["shared_kernel_ns"]) for r in rows]
        assert found == [("a", 0, 2, 9000), ("b", 0, 1, 5000)]
        (row,) = trace.run("gpu.telemetry").rows()
        assert (row["rank"], row["samples"], row["throttled_pct"]) == (1, 2, 50)
        assert row["throttled"]
        (row,) = trace.run("gpu.telemetry", window="all").rows()
        assert row["samples"] == 3


def test_settings_are_noted_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("VLLM_API_KEY", "hidden")
    monkeypatch.setenv("UNRELATED", "1")
    noted = variables()
    assert noted["NCCL_ALGO"] == "Ring"
    assert not {"VLLM_API_KEY", "UNRELATED"} & noted.keys()


def test_tokens_before_an_iteration_are_those_that_vllm_says_of_new_and_running_requests() -> None:
    new = SimpleNamespace(req_id="b", num_computed_tokens=16)
    cached = SimpleNamespace(req_ids=["a"], num_computed_tokens=[515])
    output = SimpleNamespace(
        num_scheduled_tokens={"a": 1, "b": 8},
        scheduled_new_reqs=[new],
        scheduled_cached_reqs=cached,
    )
    assert computed_tokens(output) == {"a": 515, "b": 16}
    output.scheduled_cached_reqs = [SimpleNamespace(req_id="a")]  # of another version
    new.num_computed_tokens = None
    assert computed_tokens(output) == {}
    assert computed_tokens(SimpleNamespace(num_scheduled_tokens={"a": 1})) == {}


@pytest.mark.parametrize("has_it", [True, False])
def test_detailed_annotations_are_requested_where_vllm_has_them(
    has_it: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @dataclass
    class Old:
        profiler: str = ""

    @dataclass
    class New(Old):
        detailed_trace_annotation: bool = False

    config = ModuleType("vllm.config")
    config.ProfilerConfig = New if has_it else Old  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.config", config)
    of_profiler = PyTorch().engine_arguments(ProfilerOptions(), tmp_path)
    asked = engine_arguments(EngineOptions("m"), of_profiler, model="m")
    found = with_detailed_annotation(asked)
    assert found["profiler_config"].pop("detailed_trace_annotation", False) is has_it
    assert found == asked
