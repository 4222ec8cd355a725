"""What the metrics endpoint of a vLLM server says of its scheduler, sampled during a recording."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

# Each request of the endpoint takes some ms of the server's own process.
SAMPLE_S = 0.25

_SERIES = re.compile(r"^(vllm:\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage",
}
_COUNTERS = {
    "vllm:num_preemptions_total": "preempted",
    "vllm:prefix_cache_queries_total": "prefix_queried",
    "vllm:prefix_cache_hits_total": "prefix_hits",
    "vllm:spec_decode_num_draft_tokens_total": "drafted",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted",
}
_INFO = "vllm:cache_config_info"

Sample = tuple[int, dict[int, dict[str, float]]]  # Unix time in ns, values by engine


class Samples:
    """Reads an endpoint until the block ends; use it with `async with`.

    Attributes:
        taken: the samples, in order.
    """

    def __init__(self, read: Callable[[], Awaitable[str]]) -> None:
        self._read = read
        self.taken: list[Sample] = []

    async def __aenter__(self) -> "Samples":
        await self._sample()
        self._task = asyncio.create_task(self._repeat())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            await self._sample()

    async def _sample(self) -> None:
        text = await self._read()
        self.taken.append((time.time_ns(), engine_values(text)))


def lines(samples: Sequence[Sample], ranks_of_engine: int) -> list[dict[str, Any]]:
    """The lines of scheduler.jsonl: each sample but the first, of each engine."""
    return [
        {"rank": engine * ranks_of_engine, "number": None, "unix_ns": unix_ns}
        | _since(before.get(engine, {}), values)
        for (_, before), (unix_ns, now) in pairwise(samples)
        for engine, values in sorted(now.items())
    ]


def engine_values(text: str) -> dict[int, dict[str, float]]:
    """The values of each engine in the text of an endpoint; counters since the server started."""
    found: dict[int, dict[str, float]] = {}
    for series, labels, value in _SERIES.findall(text):
        label = dict(_LABEL.findall(labels))
        with suppress(ValueError):
            of_engine = found.setdefault(int(label.get("engine", 0)), {})
            if name := _GAUGES.get(series) or _COUNTERS.get(series):
                of_engine[name] = of_engine.get(name, 0) + float(value)
            elif series == _INFO:
                of_engine["kv_blocks"] = int(label.get("num_gpu_blocks", "")) - 1
    return {engine: values for engine, values in found.items() if "running" in values}


def _since(before: dict[str, float], now: dict[str, float]) -> dict[str, int | None]:
    """The values of a sample; counters count from the sample before."""
    blocks, usage = now.get("kv_blocks"), now.get("kv_cache_usage")
    is_known = blocks is not None and usage is not None
    return {
        "running": _whole(now.get("running")),
        "waiting": _whole(now.get("waiting")),
        "kv_blocks_used": round(blocks * usage) if is_known else None,  # type: ignore[operator]
        "kv_blocks": _whole(blocks),
        **{
            name: int(now[name] - before[name]) if name in now and name in before else None
            for name in _COUNTERS.values()
        },
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
