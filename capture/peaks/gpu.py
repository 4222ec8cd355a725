"""The GPUs to measure, and the times of something that one does again and again."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from capture.errors import GpuBusy, GpuMissing
from capture.gpus import handles, value_or_none

# The durations that count, of those that this process measured: the same in all that measure.
Agree = Callable[[Sequence[float]], Sequence[float]]
# Starts so many rounds, and returns what waits for their end and yields their duration, ns.
Start = Callable[[int], Callable[[], float]]

_SAMPLES = 9
_SAMPLE_NS = 4e6  # so that the latency of the first launch is less than 1% of it
_LAUNCHES = 20  # of a sample, unless they take long
_LONG_SAMPLE_NS = 20e6
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Rounds:
    """Work of equal launches.

    Attributes:
        start: starts rounds.
        launches: the launches of a round.
    """

    start: Start
    launches: int


def own(values: Sequence[float]) -> Sequence[float]:
    return values


def timed(
    rounds: Rounds,
    *,
    state: Callable[[], dict[str, Any]],
    agree: Agree = own,
    heat_ns: float = 0,
) -> dict[str, Any]:
    """The duration of one launch.

    Args:
        state: the state of the GPU, asked for while it works.
        agree: for processes that measure together.
        heat_ns: how long it works before the first one.
    """
    rounds.start(1)()  # what comes first may compile or load something
    (once,) = agree([rounds.start(1)()])
    count = _rounds(once, rounds.launches)
    if heat_ns:
        rounds.start(math.ceil(heat_ns / once))()
    samples, states = [], []
    for _ in range(_SAMPLES):
        finish = rounds.start(count)
        states.append(state())
        samples.append(finish() / (count * rounds.launches))
    counted = agree(samples)
    middle = median(counted)
    return {
        "ns": middle,
        "mad_ns": median(abs(one - middle) for one in counted),
        "launches": _SAMPLES * count * rounds.launches,
        **states[_SAMPLES // 2],
    }


def settle() -> None:
    """Lets the GPU rest after heavy work: the limit of power lowers its clock for a while."""
    time.sleep(_SETTLE_S)


def _rounds(round_ns: float, launches: int) -> int:
    """The rounds that make a sample long enough, and have enough launches unless they are long."""
    long_enough = math.ceil(_SAMPLE_NS / round_ns)
    enough = math.ceil(_LAUNCHES / launches)
    affordable = max(1, int(_LONG_SAMPLE_NS / round_ns))
    return max(long_enough, min(enough, affordable))


_IDLE_PCT = 5  # utilization of a GPU that nobody uses
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
    """Lets CUDA see only these GPUs, as nvidia-smi numbers them; all without any.

    It must come before CUDA is used. CUDA then counts as NVML does.
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
    """Checks that no other program uses the GPUs: it would share what is measured.

    Raises:
        GpuBusy: one is in use; the message says how that was seen.
    """
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
