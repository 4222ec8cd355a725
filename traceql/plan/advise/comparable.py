"""Why a measured point cannot be compared with a prediction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from traceql.plan.advise.machine import Machine
from traceql.plan.advise.measured import MeasuredPoint
from traceql.plan.advise.memory import memory
from traceql.plan.advise.models import Model
from traceql.plan.advise.subject import is_named

# Arguments that change neither what a step computes nor how; those of sizes are read where they
# count. Any other one may change everything.
_HARMLESS = frozenset(
    {
        "disable_log_requests",
        "disable_log_stats",
        "download_dir",
        "enable_log_requests",
        "gpu_memory_utilization",
        "load_format",
        "max_logprobs",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "revision",
        "seed",
        "served_model_name",
        "tokenizer",
        "tokenizer_mode",
        "tokenizer_revision",
        "trust_remote_code",
    }
)
# What vLLM does without the argument, or what experiments do.
_USUAL: Mapping[str, object] = {
    "dtype": "auto",
    "enable_chunked_prefill": True,
    "enable_prefix_caching": False,
    "enforce_eager": False,
    "kv_cache_dtype": "auto",
}
_HARMLESS_VARIABLES = frozenset({"CUDA_VISIBLE_DEVICES", "HF_HOME", "HF_HUB_OFFLINE"})
_UTILIZATION = 0.9  # without the argument


@dataclass(frozen=True)
class Comparable:
    """What predictions are made for."""

    model: Model
    machine: Machine

    def difference(self, point: MeasuredPoint) -> str | None:
        """The first reason against a comparison; None if it can be made."""
        reasons: tuple[Callable[[], str | None], ...] = (
            lambda: None if is_named(self.model, point.model) else f"model {point.model}",
            lambda: None if point.gpu == self.machine.name else f"GPU {point.gpu or 'unknown'}",
            lambda: _arguments(point),
            lambda: _variables(point.environment),
            lambda: self._replicas(point),
            lambda: "requests that arrive at a rate" if point.in_flight is None else None,
            lambda: None if _has_tpot(point) else "no TPOT",
            lambda: self._queue(point),
        )
        return next((found for reason in reasons if (found := reason())), None)

    def _replicas(self, point: MeasuredPoint) -> str | None:
        """Such experts are split over the ranks of all replicas, which advice does not know."""
        is_split = self.model.sizes.experts and point.layout.dp > 1 and not point.layout.ep
        return "experts of replicas without EP" if is_split else None

    def _queue(self, point: MeasuredPoint) -> str | None:
        most, share = point.arguments.get("max_num_seqs"), _utilization(point)
        held = memory(
            self.model,
            point.layout,
            gpu_bytes=self.machine.memory_bytes,
            utilization=share,
            request_tokens=point.requests.tokens,
        )
        fitting = held.requests // point.layout.dp
        fitting = min(fitting, most) if isinstance(most, int) else fitting
        return "more requests than fit at once" if point.per_replica > fitting else None


def _arguments(point: MeasuredPoint) -> str | None:
    found = [
        name
        for name, value in point.arguments.items()
        if name not in _HARMLESS
        and value is not None
        and value != _USUAL.get(name)
        and not _has_own_graph(point, name, value)
    ]
    return f"engine argument {', '.join(found)}" if found else None


def _has_own_graph(point: MeasuredPoint, name: str, value: Any) -> bool:
    """Whether a decode step of the point has a CUDA graph of its size, as by default."""
    sizes = value if name == "cudagraph_capture_sizes" and isinstance(value, list) else []
    return point.per_replica in sizes


def _variables(environment: Mapping[str, str]) -> str | None:
    found = [name for name in environment if name not in _HARMLESS_VARIABLES]
    return f"environment variable {', '.join(found)}" if found else None


def _has_tpot(point: MeasuredPoint) -> bool:
    return bool(point.tpot_ns) and point.requests.output_tokens > 1


def _utilization(point: MeasuredPoint) -> float:
    given = point.arguments.get("gpu_memory_utilization")
    return given if isinstance(given, float) else _UTILIZATION
