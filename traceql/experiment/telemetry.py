"""Energy, power, memory and clocks of a repeat, from the samples of its GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.experiment.bench import Measured
from traceql.loading.telemetry import read_telemetry

SOURCE = "telemetry"
_CAPPED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80  # NVML's reasons of power, slowdown and heat
_LEAST_SAMPLES = 3  # of a GPU, before its mean means something

Samples = Mapping[str, npt.NDArray[np.float64]]


def telemetry_measurements(
    file: Path, *, gpus: Sequence[int], begin_ns: int, end_ns: int, output_tokens: int
) -> Iterator[Measured]:
    """The measurements of the time between two moments.

    Energy is the integral of the power over that time, by trapezoids between samples.

    Args:
        gpus: numbers of the GPUs that the engine used.
        begin_ns: when the first request was sent, Unix time in ns.
        end_ns: when the last token came.
        output_tokens: tokens that were generated in that time.

    Raises:
        Unusable: the file cannot be read.
    """
    table = read_telemetry(file)
    columns = {
        name: np.array(table[name].to_pylist(), dtype=np.float64)
        for name in table.column_names
        if name != "uuid"
    }
    within = [_of(columns, gpu, begin_ns, end_ns) for gpu in gpus]
    if not within or any(len(one["unix_ns"]) < _LEAST_SAMPLES for one in within):
        return
    powers = [_mean_power(one) for one in within]
    if not any(np.isnan(powers)):
        watts = float(sum(powers))
        joules = watts * (end_ns - begin_ns) / 1e9
        yield "power", "total", watts, "W", SOURCE
        yield "energy", "total", joules, "J", SOURCE
        if output_tokens:
            yield "energy_per_output_token", "total", joules / output_tokens, "J/token", SOURCE
    yield from _extremes(within)


def _of(columns: Samples, gpu: int, begin_ns: int, end_ns: int) -> dict[str, Any]:
    inside = (columns["gpu"] == gpu) & (columns["unix_ns"] >= begin_ns)
    inside &= columns["unix_ns"] <= end_ns
    return {name: values[inside] for name, values in columns.items()}


def _mean_power(samples: Samples) -> float:
    """Mean power over time, W; NaN if samples lack it."""
    times, watts = samples["unix_ns"], samples["power_mw"] / 1000
    areas = (watts[1:] + watts[:-1]) / 2 * np.diff(times)
    return float(np.sum(areas) / (times[-1] - times[0]))


def _extremes(within: Sequence[Samples]) -> Iterator[Measured]:
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
