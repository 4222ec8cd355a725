"""The command lines of vLLM: its server and its benchmarks."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capture.experiment.plan import Limits
from capture.experiment.points import Engine, Point

VLLM = (sys.executable, "-m", "capture.experiment.vllm_command")
PERCENTILES = "50,90,95,99"
_RESERVED = {
    "model": "model",
    "tensor_parallel_size": "grid.tensor_parallel",
    "pipeline_parallel_size": "grid.pipeline_parallel",
    "data_parallel_size": "grid.data_parallel",
    "enable_expert_parallel": "grid.expert_parallel",
    "load_format": "dummy_weights",
    "served_model_name": "model",
    "port": "port",
    "host": "nothing: servers of an experiment listen on this machine only",
    "profiler_config": "record",
    "worker_extension_cls": "nothing: the profiler needs it",
}


def reserved_argument(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """An engine argument that another key of the plan sets, and a message about it."""
    for name in arguments:
        if instead := _RESERVED.get(name.replace("-", "_")):
            return name, f"engine.{name} is set by {instead}"
    return None


def engine_flags(engine: Engine) -> list[str]:
    """The flags of an engine, for a server or a benchmark that starts one."""
    sizes = {
        "tensor_parallel_size": engine.tp,
        "pipeline_parallel_size": engine.pp,
        "data_parallel_size": engine.dp,
    }
    named: dict[str, Any] = {name: size for name, size in sizes.items() if size > 1}
    if engine.ep:
        named["enable_expert_parallel"] = True
    if engine.dummy_weights:
        named["load_format"] = "dummy"
    # Each benchmark sends its first prompt once before it measures, which would be a cache hit.
    named["enable_prefix_caching"] = False
    return _flags(named | engine.arguments)


def serve_arguments(engine: Engine, model: str) -> list[str]:
    """The arguments of `vllm serve`.

    Args:
        model: a folder or an id, as vLLM takes it.
    """
    named = ["--served-model-name", served_name(engine.model)]
    return [model, *engine_flags(engine), *named, "--disable-uvicorn-access-log"]


def served_name(model: str) -> str:
    """The server's name for the model of a plan: its id, or the name of its folder."""
    return Path(model).resolve().name if Path(model).is_dir() else model


def bench_serve_arguments(
    point: Point, *, url: str, model: str, folder: Path, file: str, limits: Limits, seed: int
) -> list[str]:
    """The arguments of `vllm bench serve`, for a full batch of warm-up and the point itself."""
    values: dict[str, Any] = {
        "backend": "openai",
        "base-url": url,
        "endpoint": "/v1/completions",
        "model": served_name(point.engine.model),
        "tokenizer": model,
        "dataset-name": "random",
        "random-input-len": point.prompt_tokens,
        "random-output-len": point.output_tokens,
        "random-range-ratio": 0,
        "num-prompts": point.requests,
        "num-warmups": min(point.in_flight, point.requests),
        "max-concurrency": point.batch or point.concurrency,
        "request-rate": point.request_rate or "inf",
        "seed": seed,
        "temperature": 0,
        "percentile-metrics": "ttft,tpot,itl,e2el",
        "metric-percentiles": PERCENTILES,
        "result-dir": folder,
        "result-filename": file,
    }
    words = [*_flags(values), "--ignore-eos", "--save-result", "--save-detailed", "--disable-tqdm"]
    slos = {"ttft": limits.ttft_ms, "tpot": limits.tpot_ms, "e2el": limits.e2e_ms}
    goodput = [f"{name}:{value:g}" for name, value in slos.items() if value is not None]
    return ["bench", "serve", *words, *(["--goodput", *goodput] if goodput else [])]


def bench_latency_arguments(point: Point, *, model: str, file: Path) -> list[str]:
    """The arguments of `vllm bench latency`, which starts the engine itself."""
    values = {
        "model": model,
        "input-len": point.prompt_tokens,
        "output-len": point.output_tokens,
        "batch-size": point.requests,
        "output-json": file,
    }
    return ["bench", "latency", *engine_flags(point.engine), *_flags(values)]


def _flags(arguments: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list):
            words += [f"--{flag}", *map(str, value)]
        elif isinstance(value, dict):
            words += [f"--{flag}", json.dumps(value)]
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words
