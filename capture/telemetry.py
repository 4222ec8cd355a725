"""Samples every GPU ten times a second while a run is recorded."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capture.gpus import handles, management_library, reading, text

PERIOD_S = 0.1
COLUMNS = (
    "unix_ns",
    "gpu",
    "uuid",
    "utilization_pct",
    "memory_used_bytes",
    "temperature_c",
    "power_mw",
    "sm_clock_mhz",
    "throttle_reasons",
)


@contextmanager
def sampled(path: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Writes what was sampled in the block to a Parquet file; none without a GPU.

    A run is worth more than its telemetry: what fails here is told to `warn`, never raised.
    """
    rows: list[tuple[Any, ...]] = []
    finished = threading.Event()
    thread = threading.Thread(target=_sample, args=(rows, finished, warn), daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
        if rows:
            _write(path, rows, warn)


def _sample(
    rows: list[tuple[Any, ...]], finished: threading.Event, warn: Callable[[str], None]
) -> None:
    try:
        with management_library() as nvml:
            if nvml is None:
                return
            devices = [(n, h, text(nvml.nvmlDeviceGetUUID(h))) for n, h in enumerate(handles(nvml))]
            while not finished.wait(PERIOD_S):
                rows += [_row(nvml, *device) for device in devices]
    except Exception as error:
        warn(f"no more telemetry of the GPUs: {error}")


def _row(nvml: Any, number: int, handle: Any, uuid: str) -> tuple[Any, ...]:
    utilization = reading(nvml.nvmlDeviceGetUtilizationRates, handle)
    memory = reading(nvml.nvmlDeviceGetMemoryInfo, handle)
    return (
        time.time_ns(),
        number,
        uuid,
        utilization and utilization.gpu,
        memory and memory.used,
        reading(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        reading(nvml.nvmlDeviceGetPowerUsage, handle),
        reading(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        reading(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
    )


def _write(path: Path, rows: list[tuple[Any, ...]], warn: Callable[[str], None]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = [pa.string() if name == "uuid" else pa.int64() for name in COLUMNS]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
        pq.write_table(pa.table(arrays, COLUMNS), path)
    except Exception as error:
        warn(f"telemetry was not written: {error}")
