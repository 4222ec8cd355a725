"""Energy, power, memory and clocks of a repeat, from the samples of its GPUs.

Energy is what NVML's counter has counted between the first request and the last token. NVML's power
is a mean over the last second (nvmlDeviceGetPowerUsage, of Ampere and later), so that its integral
over a short time is wrong by what the GPU did before: without the counter, power counts from ten
seconds on.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.database.loading.telemetry import read_telemetry
from traceql.runs.experiment.bench import Measured
from traceql.util.input_file import Unusable, content

SOURCE = "telemetry"
_CAPPED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80  # NVML's reasons of power, slowdown and heat
_LEAST_SAMPLES = 3  # of a GPU, before its mean means something
_COUNTER = "energy_mj"
_LEAST_COUNTED_NS = 1_000_000_000  # the counter goes on in steps of up to 100 ms
_LEAST_POWER_NS = 10_000_000_000  # ten times what the power is a mean of

Samples = Mapping[str, npt.NDArray[np.float64]]


def telemetry_measurements(
    file: Path, *, gpus: Sequence[int], begin_ns: int, end_ns: int, output_tokens: int
) -> Iterator[Measured]:
    """The measurements of the time between two moments.

    Args:
        gpus: numbers of the GPUs that the engine used.
        begin_ns: when the first request was sent, Unix time in ns.
        end_ns: when the last token came.
        output_tokens: tokens that were generated in that time.

    Raises:
        Unusable: the file cannot be read.
    """
    columns = _columns(file)
    within = [_of(columns, gpu, begin_ns, end_ns) for gpu in gpus]
    if not within or any(len(one["unix_ns"]) < _LEAST_SAMPLES for one in within):
        return
    joules = sum(_joules(_of(columns, gpu), begin_ns, end_ns) for gpu in gpus)
    if not np.isnan(joules):
        yield "power", "total", joules / (end_ns - begin_ns) * 1e9, "W", SOURCE
        yield "energy", "total", joules, "J", SOURCE
        if output_tokens:
            yield "energy_per_output_token", "total", joules / output_tokens, "J/token", SOURCE
    yield from _extremes(within)


def _columns(file: Path) -> dict[str, npt.NDArray[np.float64]]:
    """The samples, in the order of time; the counter is NaN where it was not read."""
    table = read_telemetry(file)
    names = [name for name in table.column_names if name != "uuid"]
    found = {name: np.array(table[name].to_pylist(), dtype=np.float64) for name in names}
    found[_COUNTER] = _counter(file, len(table))
    order = np.argsort(found["unix_ns"], kind="stable")
    return {name: values[order] for name, values in found.items()}


def _counter(file: Path, rows: int) -> npt.NDArray[np.float64]:
    from pyarrow.parquet import ParquetFile  # as in read_telemetry

    try:
        given = ParquetFile(pa.BufferReader(content(file)))
        if _COUNTER not in given.schema_arrow.names:
            return np.full(rows, np.nan)
        return np.array(given.read([_COUNTER])[_COUNTER].to_pylist(), dtype=np.float64)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Unusable(f"column {_COUNTER}: {str(error).splitlines()[0]}") from None


def _of(
    columns: Samples, gpu: int, begin_ns: float = -np.inf, end_ns: float = np.inf
) -> dict[str, npt.NDArray[np.float64]]:
    inside = (columns["gpu"] == gpu) & (columns["unix_ns"] >= begin_ns)
    inside &= columns["unix_ns"] <= end_ns
    return {name: values[inside] for name, values in columns.items()}


def _joules(samples: Samples, begin_ns: int, end_ns: int) -> float:
    """Energy of a GPU between two moments, J; NaN if the time is too short to tell."""
    times, counted = samples["unix_ns"], samples[_COUNTER]
    is_covered = times[0] <= begin_ns and end_ns <= times[-1]
    if is_covered and end_ns - begin_ns >= _LEAST_COUNTED_NS and not np.isnan(counted).any():
        first, last = np.interp([begin_ns, end_ns], times, counted)
        return float(last - first) / 1e3
    if end_ns - begin_ns < _LEAST_POWER_NS:
        return float("nan")
    inside = (times >= begin_ns) & (times <= end_ns)
    within, watts = times[inside], samples["power_mw"][inside] / 1e3
    areas = (watts[1:] + watts[:-1]) / 2 * np.diff(within)
    return float(np.sum(areas) / (within[-1] - within[0])) * (end_ns - begin_ns) / 1e9


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
