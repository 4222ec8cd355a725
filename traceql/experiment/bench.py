"""The numbers of vllm bench as measurements: its own, in ns, and what follows from its requests."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Measured = tuple[str, str, float, str, str]  # metric, stat, value, unit, source

BENCH = "vllm bench"
_REQUESTS = "requests"
_NS_PER_MS, _NS_PER_S = 1e6, 1e9
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}  # as vLLM has them
_STATS = ("mean", "median", "std")
_TOTALS = {
    "request_throughput": ("requests_per_second", "requests/s", 1.0),
    "output_throughput": ("output_tokens_per_second", "tokens/s", 1.0),
    "total_token_throughput": ("tokens_per_second", "tokens/s", 1.0),
    "request_goodput": ("good_requests_per_second", "requests/s", 1.0),
    "duration": ("duration", "ns", _NS_PER_S),
    "completed": ("requests", "requests", 1.0),
    "total_input_tokens": ("input_tokens", "tokens", 1.0),
    "total_output_tokens": ("output_tokens", "tokens", 1.0),
}


def serve_measurements(said: Mapping[str, Any]) -> Iterator[Measured]:
    """The measurements of a result of vllm bench serve."""
    for name, key in _LATENCIES.items():
        for stat, value in _statistics(said, key):
            yield name, stat, value * _NS_PER_MS, "ns", BENCH
    for key, (name, unit, factor) in _TOTALS.items():
        if (total := number(said.get(key))) is not None:
            yield name, "total", total * factor, unit, BENCH
    if (most := number(said.get("max_concurrent_requests"))) is not None:
        yield "in_flight", "max", most, "requests", BENCH
    for name, key in (("ttft", "ttfts"), ("queue", "queue_times")):
        values = [v * _NS_PER_S for v in map(number, said.get(key) or ()) if v is not None]
        if values:
            yield name, "max", max(values), "ns", _REQUESTS


def latency_measurements(
    said: Mapping[str, Any], *, batch: int, output_tokens: int
) -> Iterator[Measured]:
    """The measurements of a result of vllm bench latency."""
    mean = number(said.get("avg_latency"))
    if mean is None:
        return
    yield "batch_latency", "mean", mean * _NS_PER_S, "ns", BENCH
    for key, value in (said.get("percentiles") or {}).items():
        if (seconds := number(value)) is not None:
            yield "batch_latency", _stat(f"p{key}"), seconds * _NS_PER_S, "ns", BENCH
    if mean > 0:
        rate = batch * output_tokens / mean
        yield "output_tokens_per_second", "total", rate, "tokens/s", _REQUESTS


def _statistics(said: Mapping[str, Any], key: str) -> Iterator[tuple[str, float]]:
    """The statistics of a latency, ms."""
    for stat in (*_STATS, *_percentiles(said, key)):
        if (value := number(said.get(f"{stat}_{key}_ms"))) is not None:
            yield stat, value


def _percentiles(said: Mapping[str, Any], key: str) -> Sequence[str]:
    end = f"_{key}_ms"
    found = [name.removesuffix(end) for name in said if name.endswith(end)]
    return [name for name in found if name.startswith("p") and name[1:].isdigit()]


def _stat(name: str) -> str:
    return "median" if name == "p50" else name


def number(value: Any) -> float | None:
    """The value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(float(value)) < float("inf") else None
