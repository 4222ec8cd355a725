"""Finds the points of a plan that the model or the machine cannot run."""

import json
from collections.abc import Mapping
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
    """Computes the size of a model's weights; the caller passes it in, as capture cannot."""

    def __call__(
        self, config: Mapping[str, Any], *, tp: int, pp: int, dp: int, ep: bool
    ) -> float | None:
        """Bytes that the fullest GPU needs for weights, at least; None if that is not known."""
        ...


@dataclass(frozen=True)
class Feasibility:
    """Finds why the model or the machine cannot run a point.

    Attributes:
        config: the config.json of the model; empty if it is not on this machine.
        gpus: how many are visible; None if a GPU is not needed.
        gpu_bytes: memory of the largest GPU; None if unknown.
        weight_bytes: computes the memory of the weights; None if unknown.
    """

    config: Mapping[str, Any]
    gpus: int | None
    gpu_bytes: int | None = None
    weight_bytes: WeightBytes | None = None

    def reason(self, point: Point) -> str | None:
        """The first reason why a point cannot be run; None if none is known."""
        engine = point.engine
        return (
            self._layout(engine)
            or self._gpus(engine)
            or self._weights(engine)
            or self._length(point)
            or self._vocabulary(point)
            or _queue(point)
        )

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
        """Compares the weights alone with the memory; caches and activations do not count."""
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


def read_model_config(plan: Plan) -> Mapping[str, Any]:
    """The config.json of a plan's model; empty if it is not on this machine."""
    folder, config = Path(plan.model), None
    if folder.is_dir():
        with suppress(OSError, ValueError):
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    elif plan.dummy_weights:
        config = built_in_config(plan.model)
    return config if isinstance(config, dict) else {}


def _queue(point: Point) -> str | None:
    """A batch that does not run at once is not measured as one."""
    most = point.engine.arguments.get("max_num_seqs")
    if point.batch and isinstance(most, int) and point.batch > most:
        return f"max_num_seqs is {most}, so that a batch of {point.batch} does not run at once"
    return None
