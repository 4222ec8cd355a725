"""The numbers of vllm bench as measurements: its own, in ns, and what follows from its requests."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from traceql.util.input_file import Unusable

Measured = tuple[str, str, float, str, str]  # metric, stat, value, unit, source

BENCH = "vllm bench"
_REQUESTS = "requests"
_NS_PER_MS, _NS_PER_S = 1e6, 1e9
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}  # as vLLM has them
_STATS = ("mean", "median", "std")
_SPREAD = "std"
_LEAST = 1e-9  # of any number but 0; curves through smaller ones have no end
_MOST = 1e15  # of any number; 1e15 ms are 30,000 years
_PERHAPS_ZERO = ("total_input_tokens", "total_output_tokens", "request_goodput")
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


def serve_measurements(said: Mapping[str, Any], *, output_tokens: int) -> Iterator[Measured]:
    """The measurements of a result of vllm bench serve, with so many tokens of each request.

    Raises:
        Unusable: a number of it is not possible.
    """
    for name, key in _LATENCIES.items():
        for stat, value in _statistics(said, key, one_token=output_tokens == 1):
            yield name, stat, value * _NS_PER_MS, "ns", BENCH
    for key, (name, unit, factor) in _TOTALS.items():
        least_is_zero = key in _PERHAPS_ZERO
        if (total := _possible(said, key, or_zero=least_is_zero)) is not None:
            yield name, "total", total * factor, unit, BENCH
    if (most := _possible(said, "max_concurrent_requests")) is not None:
        yield "in_flight", "max", most, "requests", BENCH
    for name, key in (("ttft", "ttfts"), ("queue", "queue_times")):
        if values := [seconds * _NS_PER_S for seconds in _listed(said, key)]:
            yield name, "max", max(values), "ns", _REQUESTS


def latency_measurements(
    said: Mapping[str, Any], *, batch: int, output_tokens: int
) -> Iterator[Measured]:
    """The measurements of a result of vllm bench latency.

    Raises:
        Unusable: a number of it is not possible.
    """
    mean = _possible(said, "avg_latency")
    if mean is None:
        return
    yield "batch_latency", "mean", mean * _NS_PER_S, "ns", BENCH
    percentiles = said.get("percentiles") or {}
    if not isinstance(percentiles, Mapping):
        raise Unusable("percentiles is not a mapping")
    for key in percentiles:
        if (seconds := _possible(percentiles, key)) is not None:
            yield "batch_latency", _stat(f"p{key}"), seconds * _NS_PER_S, "ns", BENCH
    rate = batch * output_tokens / mean
    yield "output_tokens_per_second", "total", rate, "tokens/s", _REQUESTS


def _statistics(
    said: Mapping[str, Any], key: str, *, one_token: bool
) -> Iterator[tuple[str, float]]:
    """The statistics of a latency, ms."""
    for stat in (*_STATS, *_percentiles(said, key)):
        or_zero = stat == _SPREAD or key == "itl" or (key == "tpot" and one_token)
        if (value := _possible(said, f"{stat}_{key}_ms", or_zero=or_zero)) is not None:
            yield stat, value


def _percentiles(said: Mapping[str, Any], key: str) -> Sequence[str]:
    end = f"_{key}_ms"
    found = [name.removesuffix(end) for name in said if name.endswith(end)]
    return [name for name in found if name.startswith("p") and name[1:].isdigit()]


def _stat(name: str) -> str:
    return "median" if name == "p50" else name


def finite_number(value: Any) -> float | None:
    """The value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _possible(said: Mapping[str, Any], key: str, *, or_zero: bool = False) -> float | None:
    """The number under a key; None if there is none, or one that is not finite.

    Raises:
        Unusable: it is negative, or zero where that is not possible, or beyond all measure.
    """
    value = said.get(key)
    found = finite_number(value)
    if found is None and not isinstance(value, int):
        return None
    if found is None or not (_LEAST <= found <= _MOST or (found == 0 and or_zero)):
        size = "that many digits" if found is None else f"{found:g}"
        raise Unusable(f"{key} of {size} is not possible")
    return found


def _listed(said: Mapping[str, Any], key: str) -> Iterator[float]:
    """The numbers of a list, which may be 0; nothing if there is none.

    Raises:
        Unusable: it is not a list, or has a number that is not possible.
    """
    values = said.get(key)
    if values is None:
        return
    if not isinstance(values, list):
        raise Unusable(f"{key} is not a list")
    for value in values:
        if (found := _possible({key: value}, key, or_zero=True)) is not None:
            yield found
