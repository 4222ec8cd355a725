"""What vLLM's scheduler does with some requests, in words, and what a run directory says of it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from derived import Tables, database
from traces import Event, host, kernel, launch

_STEP_US = 100


@dataclass(frozen=True)
class Asked:
    """A request."""

    prompt: int
    output: int
    cached: int = 0  # tokens of its prompt that the prefix cache has
    arrives: int = 0  # the iteration from which it can run
    # In turn, tokens that speculation tries in an iteration that generates, and those of them that
    # are right.
    drafts: Sequence[tuple[int, int]] = ((0, 0),)
    # Beyond so many generated tokens it starts again: its keys and values gave way to those of
    # others in the next iteration; the prefix cache still has its part.
    restarts: int | None = None


@dataclass(frozen=True)
class Part:
    """What a request has in an iteration: tokens to process, after those computed before."""

    tokens: int
    computed: int
    is_context: bool

    @property
    def pairs(self) -> int:
        """Counted one by one."""
        return sum(
            1
            for token in range(self.computed, self.computed + self.tokens)
            for other in range(self.computed + self.tokens)
            if other <= token
        )

    @property
    def kv_tokens(self) -> int:
        return self.computed + self.tokens


Iteration = dict[str, Part]


@dataclass
class _Running:
    asked: Asked
    computed: int
    generated: int = 0
    turns: int = 0
    first_token: int | None = None  # the iteration that made it
    is_new: bool = True  # to the worker
    waits_for: int = 0  # the iteration from which it can run

    def part(self, budget: int) -> Part:
        known = self.asked.prompt + self.generated
        drafted = self._draft()[0] if self.computed == known - 1 and self.generated else 0
        tokens = min(known - self.computed + drafted, budget)
        return Part(tokens, self.computed, is_context=self.is_new or self.generated == 0)

    def ran(self, part: Part, number: int) -> None:
        self.is_new = False
        known = self.asked.prompt + self.generated
        if part.computed + part.tokens < known:
            self.computed += part.tokens
            return
        right = min(self._draft()[1], part.computed + part.tokens - known)
        self.computed = known + right
        self.generated += 1 + right
        self.turns += 1
        self.first_token = number if self.first_token is None else self.first_token
        if self.asked.restarts is not None and self.generated > self.asked.restarts:
            self.asked = replace(self.asked, restarts=None)
            self.computed = self.asked.cached
            self.is_new = True
            self.waits_for = number + 2

    def _draft(self) -> tuple[int, int]:
        return self.asked.drafts[self.turns % len(self.asked.drafts)]


@dataclass(frozen=True)
class Run:
    """The iterations, and the one that gave the first token of each request."""

    iterations: Sequence[Iteration]
    requests: dict[str, Asked]
    first_token: dict[str, int | None]


def scheduled(requests: dict[str, Asked], *, budget: int) -> Run:
    """Runs all requests to their end with at most `budget` tokens in an iteration."""
    running = {
        name: _Running(asked, asked.cached, waits_for=asked.arrives)
        for name, asked in requests.items()
    }
    iterations: list[Iteration] = []
    while unfinished := {n: r for n, r in running.items() if r.generated < r.asked.output}:
        left, parts = budget, {}
        for name, one in unfinished.items():
            if one.waits_for <= len(iterations) and left:
                parts[name] = one.part(left)
                left -= parts[name].tokens
        for name, part in parts.items():
            running[name].ran(part, len(iterations))
        iterations.append(parts)
    return Run(iterations, requests, {name: one.first_token for name, one in running.items()})


def annotation(parts: Iterable[Part], *, detailed: bool) -> str:
    """The name that vLLM gives to an iteration."""
    known = list(parts)
    kinds = [[p for p in known if p.is_context is wanted] for wanted in (True, False)]
    plain = [f"{len(kind)}({sum(p.tokens for p in kind)})" for kind in kinds]
    if not detailed:
        return "execute_context_{}_generation_{}".format(*plain)
    sums = [
        f"{len(kind)}(sq{sum(p.tokens for p in kind)}sk{sum(p.kv_tokens for p in kind)}"
        f"sqsq{sum(p.tokens**2 for p in kind)}sqsk{sum(p.tokens * p.kv_tokens for p in kind)})"
        for kind in kinds
    ]
    return "execute_{}_context_{}_generation_{}".format(sum(p.tokens for p in known), *sums)


def recorded(
    run: Run, *, skip: int = 0, detailed: bool = False, computed: bool = False, prompts: bool = True
) -> Tables:
    """The tables of a recording that begins after `skip` iterations.

    Args:
        detailed: whether vLLM annotates in detail.
        computed: whether steps.jsonl has the computed tokens.
        prompts: whether the lengths of the prompts are known, as they are not if they were texts.
    """
    events: list[Event] = []
    for number, parts in enumerate(run.iterations[skip:]):
        ts = (skip + number) * _STEP_US
        name = annotation(parts.values(), detailed=detailed)
        events += [
            host(name, ts=ts, dur=50, cat="user_annotation"),
            launch(ts=ts + 1, correlation=number),
            kernel(
                "reshape_and_cache_flash_kernel", ts=ts + 3, dur=1, correlation=number,
                grid=[-(-sum(p.tokens for p in parts.values()) // 8) * 8, 1, 1],  # padded to 8
            ),
        ]  # fmt: skip
    tables = database(*events)
    tables.con.execute("UPDATE trace SET base_time_ns = 0")
    for number, parts in enumerate(run.iterations[skip:]):
        tokens = {name: part.tokens for name, part in parts.items()}
        before = {name: part.computed for name, part in parts.items()} if computed else None
        tables.con.execute(
            "INSERT INTO run_iteration VALUES ('run', 0, ?, 0, ?, ?)", [number, tokens, before]
        )
    asked = [
        {
            "request_id": name,
            "prompt_tokens": one.prompt if prompts else None,
            "first_token_unix_ns": None if (first := run.first_token[name]) is None
            else (first * _STEP_US + 60) * 1000,
        }
        for name, one in run.requests.items()
    ]  # fmt: skip
    metrics = json.dumps({"passes": {"profiled": {"requests": asked}}})
    tables.con.execute("INSERT INTO run_file VALUES ('run', '{}', ?)", [metrics])
    return tables
