"""The GPUs to measure; no other program may use them."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capture.errors import GpuBusy, GpuMissing
from capture.gpus import handles, value_or_none

_IDLE_PCT = 5  # highest utilization of an unused GPU
_IDLE_BYTES = 3 * 2**30  # what the driver keeps for itself, at most
_SETTLES_S = 3.0  # NVML's utilization is that of the last second


@dataclass(frozen=True)
class Gpu:
    """A GPU: its number in CUDA, and NVML's handle of it.

    Attributes:
        nvml: the module pynvml; None without it, and the handle is None too.
    """

    number: int
    nvml: Any | None = None
    handle: Any | None = None

    def state(self) -> dict[str, int | None]:
        """The clock of its multiprocessors, and why it is not higher; None where unknown."""
        nvml = self.nvml
        if nvml is None:
            return {"sm_clock_mhz": None, "throttle_reasons": None}
        return {
            "sm_clock_mhz": value_or_none(
                nvml.nvmlDeviceGetClockInfo, self.handle, nvml.NVML_CLOCK_SM
            ),
            "throttle_reasons": value_or_none(
                nvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.handle
            ),
        }


def show_only(devices: Sequence[int]) -> None:
    """Makes only these GPUs visible to CUDA, in the numbering of nvidia-smi; all if none is given.

    Call it before CUDA is used.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))


def visible_gpus(nvml: Any) -> list[Gpu]:
    """The GPUs that CUDA sees, in its order.

    Raises:
        GpuMissing: CUDA_VISIBLE_DEVICES or --device names one that is not there.
    """
    everything = handles(nvml)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [Gpu(number, nvml, handle) for number, handle in enumerate(everything)]
    named = [name.strip() for name in visible.split(",") if name.strip()]
    return [Gpu(number, nvml, _handle(nvml, everything, name)) for number, name in enumerate(named)]


def _handle(nvml: Any, everything: Sequence[Any], name: str) -> Any:
    if name.isdecimal() and int(name) < len(everything):
        return everything[int(name)]
    found = value_or_none(nvml.nvmlDeviceGetHandleByUUID, name)
    if found is None:
        raise GpuMissing(
            f"there is no GPU {name}; this machine has {len(everything)}, numbered from 0 "
            "(parts of a GPU cannot be measured)"
        )
    return found


def require_idle(gpus: Sequence[Gpu]) -> None:
    """Raises GpuBusy if another program uses one of the GPUs, which would distort measurements."""
    until = time.monotonic() + _SETTLES_S
    while reason := next(filter(None, map(_use, gpus)), None):
        if time.monotonic() > until:
            raise GpuBusy(f"{reason}; end the other program, or choose another GPU with --device")
        time.sleep(0.2)


def _use(gpu: Gpu) -> str | None:
    """How another program uses a GPU; None if it does not."""
    nvml, handle = gpu.nvml, gpu.handle
    if nvml is None:
        return None
    running = value_or_none(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if running:
        return f"process {running[0].pid} uses GPU {gpu.number}"
    memory = value_or_none(nvml.nvmlDeviceGetMemoryInfo, handle)
    if memory and memory.used > _IDLE_BYTES:
        return f"{memory.used / 2**30:.0f} GiB of GPU {gpu.number} are in use"
    utilization = value_or_none(nvml.nvmlDeviceGetUtilizationRates, handle)
    if utilization and utilization.gpu > _IDLE_PCT:
        return f"GPU {gpu.number} is busy for {utilization.gpu}% of the time"
    return None
