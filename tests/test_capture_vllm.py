"""The real vLLM on a CPU, with tiny Qwen3 models: captured, loaded, questioned."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from traces import hears_ctrl_c
from vllm_python import VLLM_PYTHON

import traceql
from capture.models import write_model

pytestmark = pytest.mark.vllm

_SMALL = ("--prompts", "3", "--prompt-tokens", "16", "--output-tokens", "6")


def command(*arguments: str | Path) -> list[str]:
    return [VLLM_PYTHON, "-m", "traceql", "capture", *map(str, arguments)]


def captured(folder: Path, model: str, *arguments: str) -> Path:
    """A complete run directory of a built-in model with random weights."""
    run = folder / "run"
    done = subprocess.run(
        command("run", "--model", model, "--dummy-weights", *_SMALL, *arguments, "-o", run),
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    log = (run / "log.txt").read_text()[-3000:] if (run / "log.txt").exists() else ""
    assert done.returncode == 0, done.stderr + log
    assert "profiler overhead, measured over" in done.stdout
    return run


@contextmanager
def loaded(run: Path) -> Iterator[traceql.Trace]:
    database = traceql.load([run], run.parent / "run.duckdb").database
    with traceql.open(database) as trace:
        assert trace.run("quality.ledger", failed=True).rows() == []
        yield trace


def layers(trace: traceql.Trace, rank: int) -> list[int]:
    """Numbers of the layers that annotations name on a rank."""
    rows = trace.sql(f"""
        SELECT DISTINCT TRY_CAST(regexp_extract(name, '^module: model.layers.(\\d+)$', 1) AS INT)
        FROM slice WHERE rank = {rank} AND cat = 'user_annotation' ORDER BY ALL
    """).rows()
    return [layer for row in rows for layer in row.values() if layer is not None]


def test_annotated_dense_model_names_its_layers_and_serves_every_request(tmp_path: Path) -> None:
    """Prompts in chunks of 32 tokens, which share more than a block of the prefix cache."""
    shared = [number % 1000 for number in range(7, 7 + 23 * 40, 23)]
    prompts = [[*shared, *range(5 * n, 8 * n + 3)] for n in range(1, 9, 2)] + [[5]]
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(map(json.dumps, prompts)))
    cache = ("block_size=32", "enable_prefix_caching=true", "max_num_batched_tokens=32")
    run = captured(
        tmp_path, "qwen3-tiny", "--eager", "--annotate", "layers",
        "--prompts-file", str(file), "--concurrency", "2",
        *(word for argument in cache for word in ("--engine-arg", argument)),
    )  # fmt: skip
    facts = json.loads((run / "run.json").read_text())
    assert (facts["status"], facts["model_config"]["num_hidden_layers"]) == ("complete", 4)
    overhead = facts["overhead"]
    assert overhead["profiled_ns"] > 0 < overhead["unprofiled_ns"]
    assert not (run / "telemetry.parquet").exists()
    outputs = [json.loads(line) for line in (run / "outputs.jsonl").read_text().splitlines()]
    assert [len(output["output_token_ids"]) for output in outputs] == [6] * len(prompts)
    lines = (run / "steps.jsonl").read_text().splitlines()
    steps = [json.loads(line)["requests"] for line in lines]
    with loaded(run) as trace:
        assert layers(trace, 0) == [0, 1, 2, 3]
        assert {row["pass"] for row in trace.run("serving.latency")} == {"profiled", "unprofiled"}
        _requests_have_their_tokens(trace, steps)
        (noted,) = trace.sql("""
            SELECT
                SUM(prefix_queried)::BIGINT AS queried, SUM(prefix_hits)::BIGINT AS hits,
                list(scheduled_tokens ORDER BY number) AS tokens, MAX(running) AS running
            FROM internal.scheduler_step WHERE source = 'scheduler' AND max_scheduled_tokens = 32
        """).rows()
        assert noted == {
            "queried": sum(map(len, prompts)), "hits": 3 * 32, "running": 2,
            "tokens": [sum(step.values()) for step in steps],
        }  # fmt: skip
        _lengths_are_those_of(trace, prompts, steps)


def _requests_have_their_tokens(trace: traceql.Trace, steps: list[dict[str, int]]) -> None:
    processed = trace.sql(
        "SELECT request_id, SUM(tokens)::BIGINT AS tokens FROM request_step GROUP BY ALL"
    ).rows()
    assert {row["request_id"]: row["tokens"] for row in processed} == {
        name: sum(step.get(name, 0) for step in steps) for step in steps for name in step
    }
    mismatched = trace.sql("""
        SELECT step_id FROM step INNER JOIN request_step USING (step_id)
        GROUP BY step_id, context_tokens, generation_tokens
        HAVING SUM(tokens) != context_tokens + generation_tokens
    """)
    assert mismatched.rows() == []


def _lengths_are_those_of(
    trace: traceql.Trace, prompts: list[list[int]], steps: list[dict[str, int]]
) -> None:
    """Counts the keys and values of each step, which the trace does not have, from its prompts."""
    computed = {  # what the prefix cache had; the last token is never fed back
        f"request-{n}": len(prompt) + 6 - 1 - sum(step.get(f"request-{n}", 0) for step in steps)
        for n, prompt in enumerate(prompts)
    }
    assert sorted(computed.values()) == [0, 0, 32, 32, 32]
    expected = []
    for step in steps:
        pairs, kv_tokens = [0, 0], [0, 0]
        for name, tokens in step.items():
            first, computed[name] = computed[name], computed[name] + tokens
            generates = first >= len(prompts[int(name.removeprefix("request-"))])
            pairs[generates] += sum(position + 1 for position in range(first, computed[name]))
            kv_tokens[generates] += computed[name]
        expected.append((*pairs, *kv_tokens, "annotation"))
    found = trace.sql("""
        SELECT context_pairs, generation_pairs, context_kv_tokens, generation_kv_tokens, kv_source
        FROM step_tokens ORDER BY step_id
    """)
    assert [tuple(row.values()) for row in found] == expected
    agreed = trace.sql("SELECT value, total FROM ledger WHERE check_name = 'KV lengths'")
    busy = sum(map(bool, steps))
    assert agreed.rows() == [{"value": busy, "total": busy}]


def test_window_of_a_pipeline_parallel_moe_has_the_steps_requested(tmp_path: Path) -> None:
    """Its ranks name layers by their place in the model."""
    run = captured(
        tmp_path, "qwen3-tiny-moe", "--pp", "2", "--eager", "--annotate", "layers",
        "--skip", "1", "--steps", "3",
    )  # fmt: skip
    with loaded(run) as trace:
        steps = trace.sql("SELECT rank, COUNT(*) AS steps FROM step GROUP BY rank ORDER BY rank")
        assert [tuple(row.values()) for row in steps] == [(0, 3), (1, 3)]
        assert (layers(trace, 0), layers(trace, 1)) == ([0, 1], [2, 3])
    ranks = json.loads((run / "run.json").read_text())["ranks"]
    assert [(r["pp_rank"], r["first_layer"], r["layers"]) for r in ranks] == [(0, 0, 2), (1, 2, 2)]


def test_data_parallel_engines_are_ranks_of_one_run(tmp_path: Path) -> None:
    run = captured(tmp_path, "qwen3-tiny", "--dp", "2", "--eager", "--annotate", "layers")
    ranks = json.loads((run / "run.json").read_text())["ranks"]
    assert [(r["rank"], r["dp_rank"]) for r in ranks] == [(0, 0), (1, 1)]
    with loaded(run) as trace:
        assert layers(trace, 0) == layers(trace, 1) == [0, 1, 2, 3]
        served = trace.sql("SELECT DISTINCT request_id, rank FROM request_step ORDER BY ALL")
        assert [tuple(row.values()) for row in served] == [
            (f"request-{n}", n % 2) for n in range(3)
        ]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_engine_ends_with_whoever_captures(sent: signal.Signals, tmp_path: Path) -> None:
    run = tmp_path / "run"
    before = set(os.listdir("/dev/shm"))  # noqa: PTH208
    process = subprocess.Popen(
        command("run", "--model", "qwen3-tiny", "--dummy-weights", "--eager", "-o", run),
        stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=hears_ctrl_c,
    )  # fmt: skip
    _wait(lambda: (run / "log.txt").exists() and "EngineCore" in (run / "log.txt").read_text())
    assert len(_processes_in(tmp_path)) >= 3  # ours, and those of the engine
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    if sent == signal.SIGKILL:
        _wait(lambda: _processes_in(tmp_path) == [])
        assert json.loads((run / "run.json").read_text())["status"] == "incomplete"
        return
    assert (process.returncode, said.splitlines()[-1]) == (
        130, "traceql: interrupted; all processes of the run have ended",
    )  # fmt: skip
    assert json.loads((run / "run.json").read_text())["reason"] == "interrupted"
    assert _processes_in(tmp_path) == []
    left = {name for name in set(os.listdir("/dev/shm")) - before if "vllm" in name}  # noqa: PTH208
    assert left == set()


def test_a_running_server_is_recorded_under_load(tmp_path: Path) -> None:
    model = write_model("qwen3-tiny", tmp_path / "model")
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    profiler = {"profiler": "torch", "torch_profiler_dir": str(tmp_path / "served"),
                "torch_profiler_with_stack": False, "ignore_frontend": True,
                "detailed_trace_annotation": True}  # fmt: skip
    server = subprocess.Popen(
        [VLLM_PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
         "--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager",
         "--max-model-len", "512", "--host", "127.0.0.1", "--port", str(port),
         "--worker-extension-cls", "capture.worker_extension.WorkerExtension",
         "--scheduler-cls", "capture.scheduler.recording_scheduler",
         "--profiler-config", json.dumps(profiler)],
        stdout=(tmp_path / "server.txt").open("w"), stderr=subprocess.STDOUT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                          "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
                          "VLLM_NO_USAGE_STATS": "1", "VLLM_SERVER_DEV_MODE": "1"},
        cwd=tmp_path,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(lambda: _answers(url) or server.poll() is not None)
        done = subprocess.run(
            command("attach", url, "--seconds", "1", "--load", *_SMALL, "-o", tmp_path / "run"),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + (tmp_path / "server.txt").read_text()[-2000:]
    finally:
        server.terminate()
        server.wait(60)
    with loaded(tmp_path / "run") as trace:
        assert [row["kind"] for row in trace.sql("SELECT kind FROM run")] == ["vllm-server"]
        assert len(trace.sql("SELECT * FROM step WHERE source = 'execute_context'")) > 1
        assert trace.run("serving.requests", profiled=True).rows()
        assert trace.sql("FROM request_step WHERE starts_with(request_id, 'request-')").rows()
        (agreed,) = trace.sql("SELECT value, total FROM ledger WHERE check_name = 'KV lengths'")
        busy = trace.sql("FROM step WHERE source = 'execute_context' AND phase != 'idle'").rows()
        assert agreed["value"] == agreed["total"] == len(busy)
        unnoted = "FROM step ANTI JOIN internal.scheduler_step USING (step_id)"
        assert trace.sql(f"{unnoted} WHERE source = 'execute_context'").rows() == []
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["engine_config"]["compilation_config"]["cudagraph_mode"] == "NONE"
    assert facts["environment"]["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_a_full_kv_cache_is_noted(tmp_path: Path) -> None:
    """19 blocks are enough for 8 requests of 60 tokens, and not for what they generate.

    Nothing shares a block, so the blocks in use can also be counted from steps.jsonl.
    """
    run = captured(
        tmp_path, "qwen3-tiny", "--eager", "--prompts", "12", "--prompt-tokens", "60",
        "--output-tokens", "60", "--concurrency", "12", "--max-num-seqs", "8", "--warmup", "0",
        *("--engine-arg", "num_gpu_blocks_override=20", "--engine-arg", "block_size=32"),
        *("--engine-arg", "max_model_len=256"),
    )  # fmt: skip
    sql = """
        SELECT number, step_id, running, kv_blocks_used, kv_blocks, max_running, scheduled_tokens
        FROM internal.scheduler_step WHERE source = $source ORDER BY number
    """
    with loaded(run) as trace:
        noted = trace.sql(sql, {"source": "scheduler"}).rows()
        (most,) = trace.sql("""
            SELECT
                SUM(preempted) > 1 AS preempts, MAX(running) AS running,
                MAX(waiting) >= 4 AS waits
            FROM internal.scheduler_step
        """).rows()
        assert most == {"preempts": True, "running": 8, "waits": True}
    (run / "scheduler.jsonl").unlink()
    with loaded(run) as trace:
        assert trace.sql(sql, {"source": "steps.jsonl"}).rows() == noted


_PROGRAM = """
import sys, torch, capture
with capture.profile(sys.argv[1]) as recorder:
    for _ in range(3):
        torch.ones(8, 8) @ torch.ones(8, 8)
        recorder.step()
"""


def test_any_program_is_recorded_by_every_rank_of_a_job(tmp_path: Path) -> None:
    for rank in ("0", "1"):
        job = {"RANK": rank, "WORLD_SIZE": "2"}
        program = [VLLM_PYTHON, "-c", _PROGRAM, str(tmp_path / "run")]
        subprocess.run(program, check=True, env=os.environ | job)
    again = subprocess.run(program, check=False, env=os.environ | job, capture_output=True)
    assert b"choose another run directory" in again.stderr
    with loaded(tmp_path / "run") as trace:
        products = trace.sql(
            "SELECT rank, COUNT(*) FROM slice WHERE name = 'aten::matmul' GROUP BY ALL ORDER BY ALL"
        )
        assert [tuple(row.values()) for row in products] == [(0, 3), (1, 3)]
        (row,) = trace.sql("SELECT kind, world_size FROM run").rows()
        assert row == {"kind": "program", "world_size": 2}


def _wait(condition: object, seconds: float = 120) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _processes_in(folder: Path) -> list[str]:
    """Command lines of processes that work in a folder, as all that a capture starts do.

    vLLM renames its processes, so that their command lines say nothing.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder.resolve():
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found
