"""The points of a plan: every combination of its grid, grouped into starts of a server."""

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from capture.errors import PlanInvalid
from capture.experiment.plan import Grid, Plan

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
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return "-".join([*parts, hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]])


@dataclass(frozen=True)
class Point:
    """One combination of the grid.

    Attributes:
        batch: requests that are sent at once; None for a stream of requests.
        concurrency: most requests in flight; None if there is no limit.
        request_rate: arriving requests per second; None if it is unlimited.
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
        """Most requests at the same time, as far as the plan limits them."""
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
        """Its description for files."""
        return {"path": self.path} | asdict(self) | {"gpus": self.engine.gpus}


@dataclass(frozen=True)
class Skipped:
    """A point that is not run."""

    point: Point
    reason: str


@dataclass(frozen=True)
class Points:
    """The points of a plan: those to run and those left out."""

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


def points_of(plan: Plan, infeasible: Callable[[Point], str | None]) -> Points:
    """Every combination of the grid.

    Args:
        infeasible: returns why a point cannot be run; None if it can.

    Raises:
        PlanInvalid: no point can be run.
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
    """How many combinations a grid has, without making them."""
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


def _text(value: bool | int | float | str) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


PROFILED = 0  # the number of the repeat under the profiler


@dataclass(frozen=True)
class Block:
    """One start of a server, and the points that it measures, in this order.

    Attributes:
        repeat: counted from 1; PROFILED under the profiler.
    """

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
    """The folder of a repeat."""
    return "profiled" if repeat == PROFILED else f"repeat-{repeat}"


def blocks(
    points: Points, *, repeats: int, profile: bool, seed: int, is_done: Callable[[Point, int], bool]
) -> list[Block]:
    """The blocks that are left to run, in order.

    All engines have their first repeat before any has its second, so that a drift of the machine
    affects all of them; within a repeat their order is shuffled. Profiled repeats come last.

    Args:
        is_done: whether a repeat of a point is finished.
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
