"""The requests of a capture: how they are made and sent, and when tokens arrive."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from capture.errors import WorkloadInvalid

KNOWN_TOKENS = 1000  # every model has these token ids; a server does not report its vocabulary


class Request(NamedTuple):
    """One prompt, as token ids or as text, its position, and how many tokens to generate."""

    number: int
    request_id: str
    prompt: Sequence[int] | str
    output_tokens: int


class Mix(NamedTuple):
    """Lengths of prompt and output to draw from, each with the same probability.

    The numbers of requests, and of those in flight, hold unless the user gives others.
    """

    shapes: Sequence[tuple[int, int]]
    prompts: int
    concurrency: int


_CHAT = [(p, o) for p in (60, 150, 400, 900, 1800) for o in (8, 24, 48, 96)]
MIXES = {
    "prefill-heavy": Mix([(2048, 8)], prompts=16, concurrency=8),
    "decode-heavy": Mix([(64, 256)], prompts=32, concurrency=32),
    "chat": Mix(_CHAT, prompts=64, concurrency=16),
    "mixed": Mix([(2048, 8), (64, 256)], prompts=32, concurrency=16),
}
DEFAULT_MIX = Mix([(512, 32)], prompts=8, concurrency=8)


@dataclass(frozen=True)
class Workload:
    """All requests, in the order in which they are sent.

    Attributes:
        concurrency: requests in flight; when one has finished, the next is sent.
        seed: the seed of the lengths and token ids; None for prompts of the user.
    """

    requests: Sequence[Request]
    concurrency: int
    mix: str | None
    seed: int | None

    def facts(self) -> dict[str, Any]:
        known = {"mix": self.mix, "seed": self.seed}
        shared_pct = shared_prompt_pct([request.prompt for request in self.requests])
        return known | {
            "requests": len(self.requests),
            "concurrency": self.concurrency,
            "shared_prompt_pct": round(shared_pct, 1),
        }


def shared_prompt_pct(prompts: Sequence[Sequence[int] | str]) -> float:
    """How much of the prompts begins another one too, percent: what a prefix cache can save.

    In a sorted list, a prompt shares the most with the one before it.
    """
    ordered = sorted(prompts, key=lambda prompt: (isinstance(prompt, str), prompt))
    shared = sum(_common(one, other) for one, other in pairwise(ordered))
    return 100 * shared / max(1, sum(len(prompt) for prompt in prompts))


def _common(one: Sequence[int] | str, other: Sequence[int] | str) -> int:
    """The number of first tokens, or letters, that are equal."""
    equal = (a == b for a, b in zip(one, other, strict=False))
    return next((n for n, same in enumerate(equal) if not same), min(len(one), len(other)))


def random_workload(
    *,
    vocab_size: int,
    mix: str | None = None,
    prompts: int | None = None,
    prompt_tokens: int | None = None,
    output_tokens: int | None = None,
    concurrency: int | None = None,
    seed: int = 0,
) -> Workload:
    """Creates requests with random token ids; numbers given here replace those of the mix.

    The same arguments give the same requests on every machine.
    """
    chosen = MIXES[mix] if mix else DEFAULT_MIX
    draw = random.Random(seed)
    requests = []
    for number in range(prompts or chosen.prompts):
        shape = draw.choice(chosen.shapes)
        length = prompt_tokens or shape[0]
        ids = [draw.randrange(min(1000, vocab_size // 8), vocab_size) for _ in range(length)]
        requests.append(Request(number, f"request-{number}", ids, output_tokens or shape[1]))
    return Workload(requests, concurrency or chosen.concurrency, mix, seed)


def file_workload(path: Path, *, output_tokens: int | None, concurrency: int | None) -> Workload:
    """One request per line of a file: a JSON array of token ids, or text; or WorkloadInvalid."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadInvalid(f"cannot read the prompts in {path}: {error}") from None
    if not lines:
        raise WorkloadInvalid(f"{path} has no prompts; write one per line")
    wanted = output_tokens or DEFAULT_MIX.shapes[0][1]
    requests = []
    for number, line in enumerate(lines):
        prompt: list[int] | str = line
        with suppress(ValueError):
            ids = json.loads(line)
            if isinstance(ids, list) and ids and all(type(item) is int for item in ids):
                prompt = ids
        requests.append(Request(number, f"request-{number}", prompt, wanted))
    return Workload(requests, concurrency or DEFAULT_MIX.concurrency, None, None)


def require_token_ids(workload: Workload) -> None:
    """Raises WorkloadInvalid if a prompt is text, which a model without a tokenizer cannot take."""
    text = next((r for r in workload.requests if isinstance(r.prompt, str)), None)
    if text:
        raise WorkloadInvalid(
            f"{text.request_id} is text, but the model folder has no tokenizer; write prompts as "
            "JSON arrays of token ids, or use a model with a tokenizer"
        )


def require_fitting(workload: Workload, *, max_model_len: int, vocab_size: int) -> None:
    """Raises WorkloadInvalid if a request is too long for the model or has an unknown token id."""
    for request in workload.requests:
        if isinstance(request.prompt, str):
            continue
        length = len(request.prompt) + request.output_tokens
        if length > max_model_len:
            raise WorkloadInvalid(
                f"{request.request_id} needs {len(request.prompt)} + {request.output_tokens} "
                f"tokens, but the model allows {max_model_len}; lower --prompt-tokens or "
                "--output-tokens, or raise --engine-arg max_model_len=..."
            )
        if not 0 <= min(request.prompt) <= max(request.prompt) < vocab_size:
            raise WorkloadInvalid(
                f"{request.request_id} has a token id outside the model's vocabulary, "
                f"0 to {vocab_size - 1}; correct the prompt"
            )


class Chunk(NamedTuple):
    """The contents of one message from a server or an engine, usually one token."""

    tokens: int
    token_ids: Sequence[int] = ()
    text: str = ""
    finish_reason: str | None = None


Stream = Callable[[Request], AsyncIterator[Chunk]]


@dataclass
class Answer:
    """The tokens that one request received, with their arrival times.

    Attributes:
        sent_ns: when the request was sent, Unix time in ns.
        token_ns: when each output token arrived, Unix time in ns.
    """

    request: Request
    sent_ns: int
    token_ns: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None


class Pass(NamedTuple):
    """One run of the whole workload; begin and end are Unix time in ns."""

    answers: Sequence[Answer]
    begin_ns: int
    end_ns: int


class FirstTokens:
    """Watches a stream; `all_there` is set when a number of requests have their first token."""

    def __init__(self, stream: Stream, requests: int) -> None:
        self.all_there = asyncio.Event()
        self._stream, self._requests = stream, requests
        self._answered: set[str] = set()

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in self._stream(request):
            if chunk.tokens:
                self._answered.add(request.request_id)
                if len(self._answered) >= self._requests:
                    self.all_there.set()
            yield chunk


async def drive(
    workload: Workload,
    stream: Stream,
    *,
    done: Callable[[int, int], None] = lambda _count, _total: None,
    stop: asyncio.Event | None = None,
) -> Pass:
    """Sends all requests in order and keeps `workload.concurrency` of them in flight.

    `done` is called with the numbers of finished and of all requests. Once `stop` is set, no
    further request is sent.
    """
    waiting = iter(workload.requests)
    answers: list[Answer] = []
    begin_ns = time.time_ns()

    async def send_all_free() -> None:
        for request in waiting:
            if stop and stop.is_set():
                return
            answers.append(await _answer(request, stream))
            done(len(answers), len(workload.requests))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(workload.concurrency, len(workload.requests))):
            group.create_task(send_all_free())
    return Pass(answers, begin_ns, time.time_ns())


async def _answer(request: Request, stream: Stream) -> Answer:
    answer = Answer(request, time.time_ns())
    async for chunk in stream(request):
        answer.token_ns += [time.time_ns()] * chunk.tokens
        answer.token_ids += chunk.token_ids
        answer.text += chunk.text
        answer.finish_reason = chunk.finish_reason or answer.finish_reason
    return answer
