"""NVML: the GPUs of this machine, and samples of their state in telemetry.parquet."""

import importlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def management_library() -> Iterator[Any | None]:
    """Yields the initialised module pynvml, or None without nvidia-ml-py, a driver or a GPU."""
    nvml = None
    for name in ("pynvml", "vllm.third_party.pynvml"):  # vLLM has a copy
        with suppress(Exception):
            nvml = importlib.import_module(name)
            break
    try:
        if nvml:
            nvml.nvmlInit()
    except Exception:  # NVMLError has a subclass per code: no driver, no permission, ...
        nvml = None
    try:
        yield nvml
    finally:
        if nvml:
            value_or_none(nvml.nvmlShutdown)


def handles(nvml: Any) -> list[Any]:
    """One handle per GPU, in NVML's order."""
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def decoded(value: Any) -> str:
    """A text from NVML; older versions of the bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def value_or_none(function: Any, *arguments: Any) -> Any:
    """The value of an NVML call, or None if this GPU or driver does not support the call."""
    with suppress(Exception):
        return function(*arguments)
    return None


def largest_gpu_bytes() -> int | None:
    """Memory of the largest GPU of this machine; None if unknown."""
    with management_library() as nvml:
        sizes = (
            [value_or_none(nvml.nvmlDeviceGetMemoryInfo, h) for h in handles(nvml)] if nvml else []
        )
    return max((size.total for size in sizes if size), default=None)


def visible_gpus() -> int:
    """The number of GPUs that are visible to a child process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    with management_library() as nvml:
        return len(handles(nvml)) if nvml else 0


_PERIOD_S = 0.1
_COLUMNS = (
    "unix_ns", "gpu", "uuid", "utilization_pct", "memory_used_bytes", "temperature_c", "power_mw",
    "sm_clock_mhz", "throttle_reasons", "energy_mj",
)  # fmt: skip


@contextmanager
def sampled(path: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Samples during the `with` block and writes a Parquet file; writes none without a GPU.

    Errors of telemetry do not end a run: they are passed to `warn`.
    """
    rows: list[tuple[Any, ...]] = []
    finished = threading.Event()

    def sample() -> None:
        try:
            with management_library() as nvml:
                if nvml is None:
                    return
                known = enumerate(handles(nvml))
                devices = [(n, h, decoded(nvml.nvmlDeviceGetUUID(h))) for n, h in known]
                while not finished.wait(_PERIOD_S):
                    rows.extend(_row(nvml, *device) for device in devices)
        except Exception as error:
            warn(f"GPU telemetry stopped: {error}")

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
        if rows:
            _write(path, rows, warn)


def _row(nvml: Any, number: int, handle: Any, uuid: str) -> tuple[Any, ...]:
    utilization = value_or_none(nvml.nvmlDeviceGetUtilizationRates, handle)
    memory = value_or_none(nvml.nvmlDeviceGetMemoryInfo, handle)
    return (
        time.time_ns(),
        number,
        uuid,
        utilization and utilization.gpu,
        memory and memory.used,
        value_or_none(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        value_or_none(nvml.nvmlDeviceGetPowerUsage, handle),
        value_or_none(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        value_or_none(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
        # Power is a mean over the last second; the energy counter resolves shorter times.
        value_or_none(nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
    )


def _write(path: Path, rows: list[tuple[Any, ...]], warn: Callable[[str], None]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = [pa.string() if name == "uuid" else pa.int64() for name in _COLUMNS]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
        pq.write_table(pa.table(arrays, _COLUMNS), path)
    except Exception as error:
        warn(f"GPU telemetry could not be written: {error}")
