"""How far predictions are from measured points."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import pyarrow as pa

from traceql.plan.advise.layouts import Layout, memory
from traceql.plan.advise.machine import Machine
from traceql.plan.advise.measured import MeasuredPoint, Results, is_named, require_subject
from traceql.plan.advise.models import Model
from traceql.plan.advise.prediction import MeasuredErrors, Predictor, Requests, batch_times
from traceql.result import Result

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


_GIB = 2**30
_LARGE_GPU_BYTES = 70 * _GIB


@dataclass(frozen=True)
class Checked:
    """A measured point with its prediction; errors are predicted / measured - 1.

    Attributes:
        ttft_ns: predicted; None if it depends on how the requests meet.
    """

    point: MeasuredPoint
    tpot_ns: float
    ttft_ns: float | None

    @property
    def tpot_error(self) -> float:
        assert self.point.tpot_ns
        return self.tpot_ns / self.point.tpot_ns - 1

    @property
    def ttft_error(self) -> float | None:
        if self.ttft_ns is None or not self.point.ttft_ns:
            return None
        return self.ttft_ns / self.point.ttft_ns - 1


@dataclass(frozen=True)
class LeftOut:
    """A measured point that no prediction is compared with."""

    point: MeasuredPoint
    reason: str


@dataclass(frozen=True)
class Check:
    """All measured points.

    Attributes:
        name: where the results come from.
    """

    name: str
    checked: Sequence[Checked]
    left_out: Sequence[LeftOut]

    @property
    def ttft_errors(self) -> Sequence[float]:
        """Of the points whose TTFT is predicted."""
        return [one.ttft_error for one in self.checked if one.ttft_error is not None]

    def errors(self, limited: Collection[str]) -> MeasuredErrors:
        """Those of TPOT, from which throughput follows, and of TTFT if the goal limits it."""
        found: dict[Layout, list[float]] = {}
        for one in self.checked:
            own = found.setdefault(one.point.layout, [])
            own.append(one.tpot_error)
            if "ttft" in limited and one.ttft_error is not None:
                own.append(one.ttft_error)
        return MeasuredErrors(found)

    def beside(self, layout: Layout, requests: Requests, served: int) -> MeasuredPoint | None:
        """The point with such requests, of which the most nearly as many are served at a time."""
        alike = [
            one.point
            for one in self.checked
            if (one.point.layout, one.point.requests) == (layout, requests)
        ]
        return min(alike, key=lambda point: _distance(point, served), default=None)


def _distance(point: MeasuredPoint, served: int) -> tuple[float, bool]:
    return abs(log((point.in_flight or 1) / served)), point.is_batch


def check(results: Results, predictor: Predictor, machine: Machine) -> Check:
    """Predicts each point that can be compared.

    Raises:
        TraceqlError: the results are of another model or GPU.
    """
    require_subject(results, predictor.model, machine.name)
    comparable = Comparable(predictor.model, machine)
    checked, left_out = list[Checked](), list[LeftOut]()
    for point in results.points:
        reason = comparable.difference(point)
        found = None if reason else _checked(point, predictor, machine)
        if found:
            checked.append(found)
        else:
            left_out.append(LeftOut(point, reason or "layout that the recording does not tell of"))
    return Check(results.name, checked, left_out)


def _checked(point: MeasuredPoint, predictor: Predictor, machine: Machine) -> Checked | None:
    own = replace(predictor, requests=point.requests)
    if point.is_batch:
        tokens = _step_tokens(point, machine)
        batch = batch_times(own, point.layout, point.per_replica, step_tokens=tokens)
        return Checked(point, batch.tpot_ns, batch.ttft_ns) if batch else None
    found = own.predicted(point.layout, point.per_replica)
    if found is None:
        return None
    return Checked(point, found.tpot_ns, found.ttft_ns if point.per_replica == 1 else None)


def _step_tokens(point: MeasuredPoint, machine: Machine) -> int:
    """Most tokens of a step: as given, else what vLLM (0.25 to 0.32) takes for a server."""
    given = point.arguments.get("max_num_batched_tokens")
    if isinstance(given, int):
        return given
    is_large = machine.memory_bytes >= _LARGE_GPU_BYTES and "A100" not in machine.name
    return 8192 if is_large else 2048


_SCHEMA = pa.schema(
    [
        ("layout", pa.string()),
        ("load", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("repeats", pa.int64()),
        ("measured_tpot_ns", pa.float64()),
        ("predicted_tpot_ns", pa.float64()),
        ("tpot_error_pct", pa.float64()),
        ("measured_ttft_ns", pa.float64()),
        ("predicted_ttft_ns", pa.float64()),
        ("ttft_error_pct", pa.float64()),
        ("measured_tokens_per_s", pa.float64()),
        ("left_out", pa.string()),
    ]
)
KEYS = (
    "layout", "load", "prompt_tokens", "output_tokens", "measured_tpot_ns", "predicted_tpot_ns",
    "tpot_error_pct", "left_out", "measured_ttft_ns", "predicted_ttft_ns", "ttft_error_pct",
)  # fmt: skip


def check_rows(check: Check) -> Result:
    """The points that were predicted, then those that were left out, with the reason.

    If any was predicted, points of other models have no row. Errors are predicted / measured - 1.
    """
    rows = [_measured(one.point) | _predicted(one) for one in check.checked]
    models = {one.point.model for one in check.checked or check.left_out}
    rows += [
        _measured(one.point) | {"left_out": one.reason}
        for one in check.left_out
        if one.point.model in models
    ]
    return Result(pa.Table.from_pylist(rows, _SCHEMA))


def _measured(point: MeasuredPoint) -> dict[str, object]:
    return {
        "layout": str(point.layout),
        "load": point.load,
        "prompt_tokens": point.requests.prompt_tokens,
        "output_tokens": point.requests.output_tokens,
        "repeats": point.repeats,
        "measured_tpot_ns": point.tpot_ns,
        "measured_ttft_ns": point.ttft_ns,
        "measured_tokens_per_s": point.tokens_per_s,
    }


def _predicted(one: Checked) -> dict[str, object]:
    ttft_error = one.ttft_error
    return {
        "predicted_tpot_ns": one.tpot_ns,
        "tpot_error_pct": 100 * one.tpot_error,
        "predicted_ttft_ns": one.ttft_ns,
        "ttft_error_pct": None if ttft_error is None else 100 * ttft_error,
    }
