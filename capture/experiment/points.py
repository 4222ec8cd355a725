"""The points of a plan: every combination of its grid, and those that cannot be run."""

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from capture.errors import PlanInvalid
from capture.experiment.plan import Grid, Plan
from capture.models import built_in_config

_HASH_LETTERS = 6
_RATE_S = 30  # seconds that arriving requests cover if nothing else says how many there are
_LEAST_REQUESTS = 32  # of a point whose requests arrive at a rate


@dataclass(frozen=True)
class Engine:
    """A server to start: what its points have in common.

    Its key is a name for folders, which ends in a hash of everything that makes the engine.
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
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return "-".join([*parts, hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]])


@dataclass(frozen=True)
class Point:
    """One combination of the grid.

    Attributes:
        batch: requests that are sent at once; None for a stream of requests.
        concurrency: most requests in flight; None if there is no limit.
        request_rate: arriving requests per second; None if it is unlimited.
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
        """Most requests at the same time, as far as the plan limits them."""
        return self.batch or self.concurrency or self.requests

    @property
    def key(self) -> str:
        load = {"batch": self.batch, "concurrency": self.concurrency, "rate": self.request_rate}
        parts = [f"{name}{size:g}" for name, size in load.items() if size is not None]
        parts += [f"in{self.prompt_tokens}", f"out{self.output_tokens}", f"n{self.requests}"]
        return "-".join([*parts, *(["latency"] if self.bench == "latency" else [])])

    @property
    def path(self) -> str:
        """Where its repeats are, in the folder of points."""
        return f"{self.engine.key}/{self.key}"

    def facts(self) -> dict[str, Any]:
        return {"path": self.path} | asdict(self) | {"gpus": self.engine.gpus}


class Skipped(NamedTuple):
    point: Point
    reason: str


@dataclass(frozen=True)
class Points:
    run: Sequence[Point]
    skipped: Sequence[Skipped]

    @property
    def engines(self) -> list[Engine]:
        """The engines of the points to run, in the order of the plan."""
        return list({point.engine.key: point.engine for point in self.run}.values())

    def of(self, engine: Engine) -> list[Point]:
        """The points of an engine, from few requests to many, and from short prompts to long."""

        def order(point: Point) -> tuple[float, ...]:
            return point.in_flight, point.request_rate or math.inf, point.prompt_tokens

        return sorted((one for one in self.run if one.engine.key == engine.key), key=order)


def points_of(plan: Plan, infeasible: Callable[[Point], str | None]) -> Points:
    """Every combination of the grid; raises PlanInvalid if no point can be run.

    `infeasible` returns why a point cannot be run; None if it can.
    """
    found = {point.path: point for point in _combinations(plan)}
    run, skipped = [], []
    for point in found.values():
        reason = _broken_constraint(plan, point) or infeasible(point)
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
    return math.prod(len(listed(getattr(grid, name))) for name in grid.__struct_fields__)


def _combinations(plan: Plan) -> Iterator[Point]:
    grid = plan.grid
    rates = [
        rate if math.isfinite(rate) else None for rate in map(float, listed(grid.request_rate))
    ]
    for engine in _engines(plan, grid):
        for batch, concurrency, rate, prompt, output in product(
            listed(grid.batch),
            listed(grid.concurrency),
            rates,
            listed(grid.prompt_tokens),
            listed(grid.output_tokens),
        ):
            requests = max(_LEAST_REQUESTS, math.ceil((rate or 0) * _RATE_S))
            if concurrency is not None:
                requests = plan.rounds * concurrency
            requests = requests if batch is None else batch
            yield Point(engine, plan.bench, batch, concurrency, rate, prompt, output, requests)


def _engines(plan: Plan, grid: Grid) -> Iterator[Engine]:
    sizes = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
    of_sizes = (listed(getattr(grid, name)) for name in sizes)
    for tp, pp, dp, ep, arguments, environment in product(*of_sizes, grid.engine, grid.environment):
        yield Engine(
            plan.model,
            plan.dummy_weights,
            tp,
            pp,
            dp,
            ep,
            {k.replace("-", "_"): v for k, v in (plan.engine | arguments).items()},
            {
                name: str(int(value)) if isinstance(value, bool) else str(value)
                for name, value in (plan.environment | environment).items()
            },
        )


def _broken_constraint(plan: Plan, point: Point) -> str | None:
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


PROFILED = 0  # the number of the repeat under the profiler


@dataclass(frozen=True)
class Block:
    """One start of a server, and the points that it measures; repeats count from 1."""

    engine: Engine
    repeat: int
    points: Sequence[Point]

    @property
    def is_profiled(self) -> bool:
        return self.repeat == PROFILED

    @property
    def name(self) -> str:
        return repeat_name(self.repeat)


def repeat_name(repeat: int) -> str:
    return "profiled" if repeat == PROFILED else f"repeat-{repeat}"


def blocks(
    points: Points, *, repeats: int, profile: bool, seed: int, is_done: Callable[[Point, int], bool]
) -> list[Block]:
    """The blocks that are left to run, in order.

    All engines have their first repeat before any has its second, so that a drift of the machine
    affects all of them; within a repeat their order is shuffled. Profiled repeats come last.
    """
    order = random.Random(seed)
    found = []
    for repeat in [*range(1, repeats + 1), *([PROFILED] if profile else [])]:
        engines = list(points.engines)
        order.shuffle(engines)
        for engine in engines:
            left = [point for point in points.of(engine) if not is_done(point, repeat)]
            if left:
                found.append(Block(engine, repeat, left))
    return found


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_LATENCY_TOKENS = 10_000  # for every model: vllm/benchmarks/latency.py
# Arguments that leave the weights on the GPU as the configuration has them. Any other one, such as
# quantization, hf_overrides or cpu_offload_gb, may make them smaller.
_KEEP_WEIGHTS = frozenset({
    "block_size", "compilation_config", "enable_chunked_prefill", "enable_prefix_caching",
    "enforce_eager", "gpu_memory_utilization", "kv_cache_dtype", "max_model_len",
    "max_num_batched_tokens", "max_num_seqs", "seed", "trust_remote_code",
})  # fmt: skip


# Bytes that the fullest GPU needs for weights, at least, from a config.json and the sizes tp, pp,
# dp and ep; None if that is not known. The caller passes it in, as capture cannot compute it.
WeightBytes = Callable[..., float | None]


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
        return next(self._reasons(point, point.engine), None)

    def _reasons(self, point: Point, engine: Engine) -> Iterator[str]:
        heads, layers = self._size("num_attention_heads"), self._size("num_hidden_layers")
        if heads and heads % engine.tp:
            yield f"tensor_parallel {engine.tp} does not divide the {heads} attention heads"
        if layers and layers < engine.pp:
            yield f"pipeline_parallel {engine.pp} is more than the {layers} layers"
        if engine.ep and self.config and not any(self._size(name) for name in _EXPERTS):
            yield "expert_parallel needs a model with experts"
        if self.gpus is not None and engine.gpus > self.gpus:
            counts = {0: "no GPU is visible", 1: "1 is visible"}
            visible = counts.get(self.gpus, f"{self.gpus} are visible")
            gpus = "1 GPU" if engine.gpus == 1 else f"{engine.gpus} GPUs"
            yield f"it needs {gpus} (TP x PP x DP), and {visible}"
        if self.gpu_bytes and self.weight_bytes and _KEEP_WEIGHTS.issuperset(engine.arguments):
            # The weights alone; caches and activations do not count.
            needed = self.weight_bytes(
                self.config, tp=engine.tp, pp=engine.pp, dp=engine.dp, ep=engine.ep
            )
            if needed and needed > self.gpu_bytes:
                yield (
                    f"each GPU needs {needed / 1e9:.1f} GB for weights, and the largest has "
                    f"{self.gpu_bytes / 1e9:.1f} GB"
                )
        stated = engine.arguments.get("max_model_len")
        longest = stated if isinstance(stated, int) else self._size("max_position_embeddings")
        tokens = point.prompt_tokens + point.output_tokens
        if longest and tokens > longest:
            whose = "max_model_len" if isinstance(stated, int) else "the model"
            yield f"a request has {tokens:,} tokens, and {whose} allows {longest:,}"
        known = self._size("vocab_size")
        if point.bench == "latency" and known and known < _LATENCY_TOKENS:
            yield (
                f"vllm bench latency draws from {_LATENCY_TOKENS:,} tokens, and the model has "
                f"{known:,}"
            )
        most = engine.arguments.get("max_num_seqs")
        if point.batch and isinstance(most, int) and point.batch > most:
            yield f"max_num_seqs is {most}, so that a batch of {point.batch} does not run at once"

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
