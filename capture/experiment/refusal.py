"""Why a point cannot be run, as far as the model's configuration and the machine tell."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from capture.experiment.plan import Plan
from capture.experiment.points import Engine, Point
from capture.models import built_in_config

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_LATENCY_TOKENS = 10_000  # whatever the model: vllm/benchmarks/latency.py
# Arguments that leave the weights on the GPU as the configuration has them. Any other one, such as
# quantization, hf_overrides or cpu_offload_gb, may make them smaller.
_KEEP_WEIGHTS = frozenset(
    {
        "block_size",
        "compilation_config",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_cache_dtype",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "seed",
        "trust_remote_code",
    }
)


class WeightBytes(Protocol):
    """Knows the weights of models; this package does not, and is given one by who does."""

    def __call__(
        self, config: Mapping[str, Any], *, tp: int, pp: int, dp: int, ep: bool
    ) -> float | None:
        """Bytes that the fullest GPU needs for weights, at least; None if that is not known."""
        ...


@dataclass(frozen=True)
class Refusals:
    """What is known of the model and the machine.

    Attributes:
        config: the config.json of the model; empty if it is not on this machine.
        gpus: how many are visible; None if a GPU is not needed.
        gpu_bytes: memory of the largest GPU; None if unknown.
        weight_bytes: tells the memory that a model needs; None if nothing does.
    """

    config: Mapping[str, Any]
    gpus: int | None
    gpu_bytes: int | None = None
    weight_bytes: WeightBytes | None = None

    def reason(self, point: Point) -> str | None:
        """The first reason against a point; None if nothing is known against it."""
        engine = point.engine
        reasons: tuple[Callable[[], str | None], ...] = (
            lambda: self._layout(engine),
            lambda: self._gpus(engine),
            lambda: self._weights(engine),
            lambda: self._length(point),
            lambda: self._vocabulary(point),
            lambda: _queue(point),
        )
        return next((found for reason in reasons if (found := reason())), None)

    def _layout(self, engine: Engine) -> str | None:
        heads, layers = self._size("num_attention_heads"), self._size("num_hidden_layers")
        if heads and heads % engine.tp:
            return f"tensor_parallel {engine.tp} does not divide the {heads} attention heads"
        if layers and layers < engine.pp:
            return f"pipeline_parallel {engine.pp} is more than the {layers} layers"
        if engine.ep and self.config and not any(self._size(name) for name in _EXPERTS):
            return "expert_parallel needs a model with experts"
        return None

    def _gpus(self, engine: Engine) -> str | None:
        if self.gpus is None or engine.gpus <= self.gpus:
            return None
        visible = {0: "no GPU is visible", 1: "1 is visible"}.get(
            self.gpus, f"{self.gpus} are visible"
        )
        gpus = "1 GPU" if engine.gpus == 1 else f"{engine.gpus} GPUs"
        return f"it needs {gpus} (TP x PP x DP), and {visible}"

    def _weights(self, engine: Engine) -> str | None:
        """Only weights that do not fit without anything else are a reason."""
        if self.gpu_bytes is None or self.weight_bytes is None:
            return None
        if not _KEEP_WEIGHTS.issuperset(engine.arguments):
            return None
        needed = self.weight_bytes(
            self.config, tp=engine.tp, pp=engine.pp, dp=engine.dp, ep=engine.ep
        )
        if needed is None or needed <= self.gpu_bytes:
            return None
        return (
            f"each GPU needs {needed / 1e9:.1f} GB for weights, and the largest has "
            f"{self.gpu_bytes / 1e9:.1f} GB"
        )

    def _length(self, point: Point) -> str | None:
        stated = point.engine.arguments.get("max_model_len")
        longest = stated if isinstance(stated, int) else self._size("max_position_embeddings")
        tokens = point.prompt_tokens + point.output_tokens
        if longest and tokens > longest:
            whose = "max_model_len" if isinstance(stated, int) else "the model"
            return f"a request has {tokens:,} tokens, and {whose} allows {longest:,}"
        return None

    def _vocabulary(self, point: Point) -> str | None:
        tokens = self._size("vocab_size")
        if point.bench == "latency" and tokens and tokens < _LATENCY_TOKENS:
            return (
                f"vllm bench latency draws from {_LATENCY_TOKENS:,} tokens, and the model has "
                f"{tokens:,}"
            )
        return None

    def _size(self, name: str) -> int | None:
        inner = self.config.get("text_config")
        found = (inner if isinstance(inner, dict) else self.config).get(name)
        return found if isinstance(found, int) else None


def refusals(
    plan: Plan,
    gpus: int | None,
    *,
    gpu_bytes: int | None = None,
    weight_bytes: WeightBytes | None = None,
) -> Refusals:
    """Reads the configuration of the plan's model, if it is on this machine."""
    file = Path(plan.model) / "config.json"
    config: Any = None
    if file.parent.is_dir():
        with suppress(OSError, ValueError):
            config = json.loads(file.read_text(encoding="utf-8"))
    elif plan.dummy_weights:
        config = built_in_config(plan.model)
    known = config if isinstance(config, dict) else {}
    return Refusals(known, gpus, gpu_bytes, weight_bytes)


def _queue(point: Point) -> str | None:
    """A batch that waits in a queue is not one batch."""
    most = point.engine.arguments.get("max_num_seqs")
    if point.batch and isinstance(most, int) and point.batch > most:
        return f"max_num_seqs is {most}, so that a batch of {point.batch} does not run at once"
    return None
