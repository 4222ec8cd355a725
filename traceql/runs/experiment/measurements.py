"""The measurements of a complete repeat, from vllm bench and the telemetry of its GPUs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.database.loading.run_directory import json_document
from traceql.database.loading.run_files import read_telemetry
from traceql.runs.experiment.documents import PointDocument, RepeatDocument
from traceql.util.files import Unusable, read_bytes

Measured = tuple[str, str, float, str, str]  # metric, stat, value, unit, source

BENCH = "vllm bench"
_REQUESTS = "requests"
_NS_PER_MS, _NS_PER_S = 1e6, 1e9
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}  # names of vLLM
_STATS = ("mean", "median", "std")
_LEAST = 1e-9  # of any number but 0; fits through smaller ones diverge
_MOST = 1e15  # of any number; 1e15 ms are 30,000 years
_MAY_BE_ZERO = ("total_input_tokens", "total_output_tokens", "request_goodput")
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


def serve_measurements(bench: Mapping[str, Any], *, output_tokens: int) -> Iterator[Measured]:
    """The measurements of a result of vllm bench serve; raises Unusable for impossible numbers."""
    for name, key in _LATENCIES.items():
        for stat, value in _statistics(bench, key, one_token=output_tokens == 1):
            yield name, stat, value * _NS_PER_MS, "ns", BENCH
    for key, (name, unit, factor) in _TOTALS.items():
        if (total := _possible(bench, key, or_zero=key in _MAY_BE_ZERO)) is not None:
            yield name, "total", total * factor, unit, BENCH
    if (most := _possible(bench, "max_concurrent_requests")) is not None:
        yield "in_flight", "max", most, "requests", BENCH
    for name, key in (("ttft", "ttfts"), ("queue", "queue_times")):
        if values := [seconds * _NS_PER_S for seconds in _listed(bench, key)]:
            yield name, "max", max(values), "ns", _REQUESTS


def latency_measurements(
    bench: Mapping[str, Any], *, batch: int, output_tokens: int
) -> Iterator[Measured]:
    """The measurements of a result of vllm bench latency; Unusable for impossible numbers."""
    mean = _possible(bench, "avg_latency")
    if mean is None:
        return
    yield "batch_latency", "mean", mean * _NS_PER_S, "ns", BENCH
    percentiles = bench.get("percentiles") or {}
    if not isinstance(percentiles, Mapping):
        raise Unusable("percentiles is not a mapping")
    for key in percentiles:
        if (seconds := _possible(percentiles, key)) is not None:
            stat = "median" if key == "50" else f"p{key}"
            yield "batch_latency", stat, seconds * _NS_PER_S, "ns", BENCH
    rate = batch * output_tokens / mean
    yield "output_tokens_per_second", "total", rate, "tokens/s", _REQUESTS


def _statistics(
    bench: Mapping[str, Any], key: str, *, one_token: bool
) -> Iterator[tuple[str, float]]:
    """The statistics of a latency, ms."""
    end = f"_{key}_ms"
    names = [name.removesuffix(end) for name in bench if name.endswith(end)]
    percentiles = [name for name in names if name.startswith("p") and name[1:].isdigit()]
    for stat in (*_STATS, *percentiles):
        or_zero = stat == "std" or key == "itl" or (key == "tpot" and one_token)
        if (value := _possible(bench, stat + end, or_zero=or_zero)) is not None:
            yield stat, value


def finite_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _possible(bench: Mapping[str, Any], key: str, *, or_zero: bool = False) -> float | None:
    """The finite number of a key, or None; Unusable if it is negative, too large or a false 0."""
    value = bench.get(key)
    found = finite_number(value)
    if found is None and not isinstance(value, int):
        return None
    if found is None or not (_LEAST <= found <= _MOST or (found == 0 and or_zero)):
        size = "that many digits" if found is None else f"{found:g}"
        raise Unusable(f"{key} of {size} is not possible")
    return found


def _listed(bench: Mapping[str, Any], key: str) -> Iterator[float]:
    """The numbers of a list, which may be 0; Unusable if it is no list, or one is not possible."""
    values = bench.get(key)
    if values is None:
        return
    if not isinstance(values, list):
        raise Unusable(f"{key} is not a list")
    for value in values:
        if (found := _possible({key: value}, key, or_zero=True)) is not None:
            yield found


SOURCE = "telemetry"
_CAPPED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80  # NVML's reasons of power, slowdown and heat
_LEAST_SAMPLES = 3  # of a GPU, for a mean
_COUNTER = "energy_mj"
_LEAST_COUNTED_NS = 1_000_000_000  # the counter is updated every 100 ms
_LEAST_POWER_NS = 10_000_000_000  # ten times the averaging window of power

Samples = Mapping[str, npt.NDArray[np.float64]]


def telemetry_measurements(
    file: Path, *, gpus: Sequence[int], begin_ns: int, end_ns: int, output_tokens: int
) -> Iterator[Measured]:
    """The measurements of these GPUs from the first request to the last token, Unix time in ns.

    `output_tokens` were generated in that time. Raises Unusable if the file cannot be read.
    """
    columns = _columns(file)
    own = [_of(columns, columns["gpu"] == gpu) for gpu in gpus]
    within = [_of(one, (one["unix_ns"] >= begin_ns) & (one["unix_ns"] <= end_ns)) for one in own]
    if not within or any(len(one["unix_ns"]) < _LEAST_SAMPLES for one in within):
        return
    pairs = zip(own, within, strict=True)
    joules = sum(_joules(samples, inside, begin_ns, end_ns) for samples, inside in pairs)
    if not np.isnan(joules):
        yield "power", "total", joules / (end_ns - begin_ns) * 1e9, "W", SOURCE
        yield "energy", "total", joules, "J", SOURCE
        if output_tokens:
            yield "energy_per_output_token", "total", joules / output_tokens, "J/token", SOURCE
    memory = max(float(np.max(one["memory_used_bytes"])) for one in within)
    if not np.isnan(memory):
        yield "memory_used", "max", memory, "bytes", SOURCE
    clock = float(np.mean(np.concatenate([one["sm_clock_mhz"] for one in within])))
    if not np.isnan(clock):
        yield "sm_clock", "mean", clock, "MHz", SOURCE
    reasons = np.concatenate([one["throttle_reasons"] for one in within])
    if not np.isnan(reasons).any():
        capped = (reasons.astype(np.int64) & _CAPPED) != 0
        yield "throttled", "total", 100 * float(np.mean(capped)), "%", SOURCE


def _columns(file: Path) -> dict[str, npt.NDArray[np.float64]]:
    """The samples, in the order of time; the counter is NaN where it was not read."""
    from pyarrow.parquet import ParquetFile  # as in read_telemetry

    table = read_telemetry(file)
    names = [name for name in table.column_names if name != "uuid"]
    found = {name: np.array(table[name].to_pylist(), dtype=np.float64) for name in names}
    found[_COUNTER] = np.full(len(table), np.nan)
    try:
        given = ParquetFile(pa.BufferReader(read_bytes(file)))
        if _COUNTER in given.schema_arrow.names:
            counted = given.read([_COUNTER])[_COUNTER].to_pylist()
            found[_COUNTER] = np.array(counted, dtype=np.float64)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Unusable(f"column {_COUNTER}: {str(error).splitlines()[0]}") from None
    return _of(found, np.argsort(found["unix_ns"], kind="stable"))


def _of(columns: Samples, chosen: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    return {name: values[chosen] for name, values in columns.items()}


def _joules(samples: Samples, inside: Samples, begin_ns: int, end_ns: int) -> float:
    """Energy of a GPU between two moments, J; NaN if the time is too short."""
    times, counted = samples["unix_ns"], samples[_COUNTER]
    is_covered = times[0] <= begin_ns and end_ns <= times[-1]
    if is_covered and end_ns - begin_ns >= _LEAST_COUNTED_NS and not np.isnan(counted).any():
        first, last = np.interp([begin_ns, end_ns], times, counted)
        return float(last - first) / 1e3
    if end_ns - begin_ns < _LEAST_POWER_NS:
        return float("nan")
    within, watts = inside["unix_ns"], inside["power_mw"] / 1e3
    areas = (watts[1:] + watts[:-1]) / 2 * np.diff(within)
    return float(np.sum(areas) / (within[-1] - within[0])) * (end_ns - begin_ns) / 1e9


def repeat_measurements(
    folder: Path, point: PointDocument, run: RepeatDocument, warn: Callable[[str], None]
) -> list[Measured]:
    """The measurements of the benchmark, and of the telemetry or else a warning.

    Raises Unusable if bench.json cannot be read, or has a number that is not possible.
    """
    bench = json_document(folder / "bench.json").value
    if not isinstance(bench, dict):
        raise Unusable("it is not a mapping")
    tokens = point.output_tokens
    if point.bench == "latency":
        batch = point.batch or point.requests
        return list(latency_measurements(bench, batch=batch, output_tokens=tokens))
    measured = list(serve_measurements(bench, output_tokens=tokens))
    file, window = folder / "telemetry.parquet", _window(folder / "metrics.json")
    if window is None or not file.exists():
        return measured
    try:
        found = list(
            telemetry_measurements(
                file,
                gpus=_gpus(point, run),
                begin_ns=window[0],
                end_ns=window[1],
                output_tokens=round(finite_number(bench.get("total_output_tokens")) or 0),
            )
        )
    except Unusable as error:
        warn(f"{file} cannot be used: {error}; the repeat has no energy")
        return measured
    return measured + [one for one in found if isfinite(one[2])]


def _window(file: Path) -> tuple[int, int] | None:
    """From the first request to the last token, Unix time in ns."""
    try:
        measured = json_document(file).value["passes"]["unprofiled"]
        begin, end = measured["begin_unix_ns"], measured["end_unix_ns"]
    except (Unusable, KeyError, TypeError):
        return None
    is_time = isinstance(begin, int) and isinstance(end, int) and 0 <= begin < end < 2**62
    return (begin, end) if is_time else None


def _gpus(point: PointDocument, run: RepeatDocument) -> Sequence[int]:
    """The GPUs of the engine: those that are visible to it, the first ones first."""
    name = "CUDA_VISIBLE_DEVICES"
    visible = str(point.engine.environment.get(name) or run.environment.get(name) or "")
    numbers = [int(one) for one in visible.split(",") if one.strip().isdecimal() and len(one) < 10]
    return (numbers or range(len(run.gpus)))[: point.engine.gpus]
