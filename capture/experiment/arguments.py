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
    "host": "nothing: servers of an experiment listen on this machine alone",
    "profiler_config": "record",
    "worker_extension_cls": "nothing: the profiler needs it",
}


def misplaced(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """An argument of an engine that has another place in the plan, and what is said of it."""
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
    # Each benchmark sends its first prompt once before it measures: it would be in the cache.
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
    """What the server calls the model of a plan: its id, or the name of its folder."""
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
    words = [w for name, v in values.items() if v is not None for w in (f"--{name}", str(v))]
    words += ["--ignore-eos", "--save-result", "--save-detailed", "--disable-tqdm"]
    return ["bench", "serve", *words, *_goodput(limits)]


def bench_latency_arguments(point: Point, *, model: str, file: Path) -> list[str]:
    """The arguments of `vllm bench latency`, which starts the engine itself."""
    values = {
        "model": model,
        "input-len": point.prompt_tokens,
        "output-len": point.output_tokens,
        "batch-size": point.requests,
        "output-json": file,
    }
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    return ["bench", "latency", *engine_flags(point.engine), *words]


def _goodput(limits: Limits) -> list[str]:
    named = {"ttft": limits.ttft_ms, "tpot": limits.tpot_ms, "e2el": limits.e2e_ms}
    pairs = [f"{name}:{value:g}" for name, value in named.items() if value is not None]
    return ["--goodput", *pairs] if pairs else []


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
