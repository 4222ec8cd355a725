"""The points of a plan: every combination of its grid, and those left out, with the reason."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from capture.errors import PlanInvalid
from capture.experiment.plan import Grid, Plan
from capture.models import built_in_config

_HASH_LETTERS = 6
_RATE_S = 30  # seconds that arriving requests cover if nothing else says how many there are
_LEAST_REQUESTS = 32  # of a point whose requests arrive at a rate


@dataclass(frozen=True)
class Engine:
    """A server to start: what its points have in common.

    Attributes:
        arguments: of vLLM's engine, beside the parallel sizes.
        environment: variables of the server.
        key: a name for folders, which ends in a hash of everything that makes the engine.
    """

    model: str
    dummy_weights: bool
    tp: int
    pp: int
    dp: int
    ep: bool
    arguments: dict[str, Any]
    environment: dict[str, str]

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def key(self) -> str:
        sizes = {"tp": self.tp, "pp": self.pp, "dp": self.dp}
        parts = [f"{name}{size}" for name, size in sizes.items() if size > 1 or name == "tp"]
        parts += ["ep"] if self.ep else []
        return "-".join([*parts, _hash(asdict(self))])


@dataclass(frozen=True)
class Point:
    """One combination of the grid.

    Attributes:
        batch: requests that are sent at once; None if they follow each other.
        concurrency: most requests in flight; None if there is no limit.
        request_rate: arriving requests per second; None if they do not wait to arrive.
        requests: how many are measured.
    """

    engine: Engine
    bench: str
    batch: int | None
    concurrency: int | None
    request_rate: float | None
    prompt_tokens: int
    output_tokens: int
    requests: int

    @property
    def in_flight(self) -> int:
        """Most requests at the same time, as far as the plan says."""
        return self.batch or self.concurrency or self.requests

    @property
    def key(self) -> str:
        """A name for folders, unique among the points of its engine."""
        load = {"batch": self.batch, "concurrency": self.concurrency, "rate": self.request_rate}
        parts = [f"{name}{size:g}" for name, size in load.items() if size is not None]
        parts += [f"in{self.prompt_tokens}", f"out{self.output_tokens}", f"n{self.requests}"]
        return "-".join([*parts, *(["latency"] if self.bench == "latency" else [])])

    @property
    def path(self) -> str:
        """Where its repeats are, in the folder of points."""
        return f"{self.engine.key}/{self.key}"

    def facts(self) -> dict[str, Any]:
        """What it is, for files."""
        return {"path": self.path} | asdict(self) | {"gpus": self.engine.gpus}


@dataclass(frozen=True)
class Skipped:
    """A point that is not run."""

    point: Point
    reason: str


@dataclass(frozen=True)
class Points:
    """What a plan asks for."""

    run: Sequence[Point]
    skipped: Sequence[Skipped]

    @property
    def engines(self) -> list[Engine]:
        """The engines of the points to run, in the order of the plan."""
        return list({point.engine.key: point.engine for point in self.run}.values())

    def of(self, engine: Engine) -> list[Point]:
        """The points of an engine, from few requests to many, and from short prompts to long."""
        found = [point for point in self.run if point.engine.key == engine.key]
        return sorted(
            found, key=lambda p: (p.in_flight, p.request_rate or math.inf, p.prompt_tokens)
        )


def points_of(plan: Plan, refusal: Callable[[Point], str | None]) -> Points:
    """Every combination of the grid.

    Args:
        refusal: says why a point cannot be run; None if nothing is known against it.

    Raises:
        PlanInvalid: no point can be run.
    """
    found = {point.path: point for point in _combinations(plan)}
    run, skipped = [], []
    for point in found.values():
        reason = _beyond(plan, point) or refusal(point)
        if reason:
            skipped.append(Skipped(point, reason))
        else:
            run.append(point)
    if not run:
        others = len(skipped) - 1
        more = f" (and {others:,} more point{'s' if others > 1 else ''})" if others else ""
        raise PlanInvalid(f"no point of the plan can be run: {skipped[0].reason}{more}")
    return Points(run, skipped)


def most_points(grid: Grid) -> int:
    """How many combinations a grid has, without making them."""
    return math.prod(len(listed(getattr(grid, name))) for name in grid.__struct_fields__)


def _combinations(plan: Plan) -> Iterator[Point]:
    grid = plan.grid
    rates = [None if rate == "inf" else float(rate) for rate in listed(grid.request_rate)]
    rates = [None if rate is not None and math.isinf(rate) else rate for rate in rates]
    for engine in _engines(plan, grid):
        for batch, concurrency, rate, prompt, output in product(
            listed(grid.batch),
            listed(grid.concurrency),
            rates,
            listed(grid.prompt_tokens),
            listed(grid.output_tokens),
        ):
            requests = _requests(plan, batch, concurrency, rate)
            yield Point(engine, plan.bench, batch, concurrency, rate, prompt, output, requests)


def _engines(plan: Plan, grid: Grid) -> Iterator[Engine]:
    for tp, pp, dp, ep, arguments, environment in product(
        listed(grid.tensor_parallel),
        listed(grid.pipeline_parallel),
        listed(grid.data_parallel),
        listed(grid.expert_parallel),
        grid.engine,
        grid.environment,
    ):
        yield Engine(
            plan.model,
            plan.dummy_weights,
            tp,
            pp,
            dp,
            ep,
            {name.replace("-", "_"): v for name, v in (plan.engine | arguments).items()},
            {name: _text(v) for name, v in (plan.environment | environment).items()},
        )


def _requests(plan: Plan, batch: int | None, concurrency: int | None, rate: float | None) -> int:
    if batch is not None:
        return batch
    if concurrency is not None:
        return plan.rounds * concurrency
    return max(_LEAST_REQUESTS, math.ceil((rate or 0) * _RATE_S))


def _beyond(plan: Plan, point: Point) -> str | None:
    """Which constraint of the plan a point breaks."""
    limits = plan.constraints
    tokens = point.prompt_tokens + point.output_tokens
    per_gpu = math.ceil(point.in_flight / point.engine.gpus)
    for limit, value, what in (
        (limits.max_gpus, point.engine.gpus, "GPUs"),
        (limits.max_tokens, tokens, "tokens of a request"),
        (limits.max_tokens_in_flight, tokens * point.in_flight, "tokens in flight"),
        (limits.max_in_flight_per_gpu, per_gpu, "requests in flight per GPU"),
    ):
        if limit is not None and value > limit:
            return f"{value:,} {what}, and the plan allows {limit:,}"
    return None


def listed(value: Any) -> list[Any]:
    """The values of a key of the grid."""
    return value if isinstance(value, list) else [value]


def _text(value: bool | int | float | str) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _hash(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]


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
