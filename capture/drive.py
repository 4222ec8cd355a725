"""Sends the requests of a workload and records when each token arrives."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from capture.workload import Request, Workload


@dataclass(frozen=True)
class Chunk:
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


@dataclass(frozen=True)
class Pass:
    """One run of the whole workload; begin and end are Unix time in ns."""

    answers: Sequence[Answer]
    begin_ns: int
    end_ns: int


class FirstTokens:
    """Watches a stream until so many requests have their first token.

    Attributes:
        all_there: set when they have.
    """

    def __init__(self, stream: Stream, requests: int) -> None:
        self.all_there = asyncio.Event()
        self._stream, self._requests = stream, requests
        self._answered: set[str] = set()

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The stream as it is."""
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

    Args:
        done: called with the number of finished requests and the number of all requests.
        stop: once this event is set, no further request is sent.
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
