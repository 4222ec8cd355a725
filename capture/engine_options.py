"""What a run asks of vLLM: the engine's arguments and the profiler's switches."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capture.errors import CaptureError
from capture.worker_extension import QUALIFIED_NAME

# What run.json says would not be what ran, were these given as they are.
_DECIDED = {
    "model": "name it with --model",
    "tensor_parallel_size": "use --tp",
    "pipeline_parallel_size": "use --pp",
    "data_parallel_size": "use --dp",
    "enable_expert_parallel": "use --ep",
    "enforce_eager": "use --eager",
    "profiler_config": "use --stacks, --shapes and --memory",
    "worker_extension_cls": "capture has a worker extension of its own",
}


@dataclass(frozen=True)
class EngineOptions:
    """The engine to start; what is None is left to vLLM."""

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


@dataclass(frozen=True)
class ProfilerOptions:
    """What the profiler records beside events; all but shapes cost time and space."""

    stacks: bool = False
    shapes: bool = True
    memory: bool = False


def engine_arguments(
    options: EngineOptions, profiler: ProfilerOptions, *, model: str, folder: Path
) -> dict[str, Any]:
    """Keyword arguments of vLLM's AsyncEngineArgs.

    Args:
        model: folder or id, as vLLM takes it.
        folder: where the profiler writes until each rank has its own.
    """
    arguments: dict[str, Any] = {
        "model": model,
        "tensor_parallel_size": options.tp,
        "pipeline_parallel_size": options.pp,
        "data_parallel_size": options.dp,
        "enable_expert_parallel": options.ep,
        "enforce_eager": options.eager,
        "worker_extension_cls": QUALIFIED_NAME,
        "profiler_config": {
            "profiler": "torch",
            "torch_profiler_dir": str(folder),
            "torch_profiler_with_stack": profiler.stacks,
            "torch_profiler_record_shapes": profiler.shapes,
            "torch_profiler_with_memory": profiler.memory,
            "torch_profiler_use_gzip": True,
            "torch_profiler_dump_cuda_time_total": False,
            "ignore_frontend": True,
        },
    }
    if options.dummy_weights:
        arguments["load_format"] = "dummy"
    if not has_tokenizer(model):
        arguments["skip_tokenizer_init"] = True
    named = {"dtype": options.dtype, "max_num_seqs": options.max_num_seqs}
    arguments |= {name: value for name, value in named.items() if value is not None}
    return arguments | options.more


def has_tokenizer(model: str) -> bool:
    """Whether a model's folder has a tokenizer; ids of a hub are taken to have one."""
    folder = Path(model)
    if not folder.is_dir():
        return True
    return any((folder / name).exists() for name in ("tokenizer.json", "vocab.json", "tekken.json"))


def parsed_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs; values are JSON where they can be, else text.

    Raises:
        CaptureError: a pair has no '=', or names what an option of capture decides.
    """
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise CaptureError(f"--engine-arg {pair}: write it as name=value")
        name = key.replace("-", "_")
        if name in _DECIDED:
            raise CaptureError(f"--engine-arg {name}: {_DECIDED[name]}")
        parsed[name] = _value(value)
    return parsed


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return text
