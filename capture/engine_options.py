"""The options of a run that become arguments of vLLM's engine and of its profiler."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from capture.errors import CaptureError
from capture.worker_extension import QUALIFIED_NAME

# --engine-arg must not set these: capture sets them itself and describes them in run.json.
_RESERVED = {
    "model": "use --model",
    "tensor_parallel_size": "use --tp",
    "pipeline_parallel_size": "use --pp",
    "data_parallel_size": "use --dp",
    "enable_expert_parallel": "use --ep",
    "enforce_eager": "use --eager",
    "profiler_config": "use --profiler, --stacks, --shapes and --memory",
    "worker_extension_cls": "capture needs it for its own worker extension",
}


@dataclass(frozen=True)
class EngineOptions:
    """The engine to start; vLLM chooses the value of every option that is None."""

    model: str
    dummy_weights: bool = False
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    eager: bool = False
    dtype: str | None = None
    max_num_seqs: int | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        return self.tp * self.pp * self.dp


def engine_arguments(
    options: EngineOptions, profiler: Mapping[str, Any], *, model: str
) -> dict[str, Any]:
    """Returns the keyword arguments for vLLM's AsyncEngineArgs.

    Args:
        profiler: those that set the profiler up.
        model: a model folder or a Hugging Face id, as vLLM accepts it.
    """
    arguments: dict[str, Any] = {
        "model": model,
        "tensor_parallel_size": options.tp,
        "pipeline_parallel_size": options.pp,
        "data_parallel_size": options.dp,
        "enable_expert_parallel": options.ep,
        "enforce_eager": options.eager,
        "worker_extension_cls": QUALIFIED_NAME,
        **profiler,
    }
    if options.dummy_weights:
        arguments["load_format"] = "dummy"
    if not has_tokenizer(model):
        arguments["skip_tokenizer_init"] = True
    named = {"dtype": options.dtype, "max_num_seqs": options.max_num_seqs}
    arguments |= {name: value for name, value in named.items() if value is not None}
    return arguments | options.more


def with_detailed_annotation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Adds KV lengths to the annotations of steps, if this vLLM can do so (0.26 and later)."""
    from vllm.config import ProfilerConfig

    if "detailed_trace_annotation" not in {known.name for known in fields(ProfilerConfig)}:
        return dict(arguments)
    profiler = arguments["profiler_config"] | {"detailed_trace_annotation": True}
    return {**arguments, "profiler_config": profiler}


def has_tokenizer(model: str) -> bool:
    """Whether a model folder has a tokenizer; a Hugging Face id is assumed to have one."""
    folder = Path(model)
    if not folder.is_dir():
        return True
    return any((folder / name).exists() for name in ("tokenizer.json", "vocab.json", "tekken.json"))


def parsed_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """Parses `name=value` pairs; a value that is not valid JSON is text.

    Raises:
        CaptureError: a pair has no '=', or names an argument that has its own option.
    """
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not (key and equals):
            raise CaptureError(f"--engine-arg {pair}: write it as name=value")
        name = key.replace("-", "_")
        if name in _RESERVED:
            raise CaptureError(f"--engine-arg {name}: {_RESERVED[name]}")
        parsed[name] = _json_or_text(text)
    return parsed


def _json_or_text(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return text
