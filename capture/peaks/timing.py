"""The GPUs to measure, which no other program may use, and rounds of launches on one."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from typing import Any, NamedTuple

from capture.errors import CaptureError, GpuBusy
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
        nvml, clock, reasons = self.nvml, None, None
        if nvml is not None:
            clock = value_or_none(nvml.nvmlDeviceGetClockInfo, self.handle, nvml.NVML_CLOCK_SM)
            reasons = value_or_none(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.handle)
        return {"sm_clock_mhz": clock, "throttle_reasons": reasons}


def show_only(devices: Sequence[int]) -> None:
    """Makes only these GPUs visible to CUDA, in the numbering of nvidia-smi; all if none is given.

    Call it before CUDA is used.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))


def visible_gpus(nvml: Any) -> list[Gpu]:
    """The GPUs that CUDA sees, in its order; CaptureError if one that was named is not there."""
    everything = found = handles(nvml)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        found = []
        for name in filter(None, map(str.strip, visible.split(","))):
            is_number = name.isdecimal() and int(name) < len(everything)
            by_uuid = nvml.nvmlDeviceGetHandleByUUID
            found.append(everything[int(name)] if is_number else value_or_none(by_uuid, name))
            if found[-1] is None:
                raise CaptureError(
                    f"there is no GPU {name}; this machine has {len(everything)}, numbered from 0 "
                    "(parts of a GPU cannot be measured)"
                )
    return [Gpu(number, nvml, handle) for number, handle in enumerate(found)]


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


# Maps the durations of this process to those that all processes of a measurement use.
Agree = Callable[[Sequence[float]], Sequence[float]]
# Starts a number of rounds; returns a function that waits for them and returns their duration, ns.
Start = Callable[[int], Callable[[], float]]

_SAMPLES = 9
_SAMPLE_NS = 4e6  # so that the latency of the first launch is less than 1% of it
_LAUNCHES = 20  # of a sample, unless they take long
_LONG_SAMPLE_NS = 20e6
_SETTLE_S = 1.0


class Rounds(NamedTuple):
    """Rounds of equal launches; `launches` is their number in a round."""

    start: Start
    launches: int


def unchanged(values: Sequence[float]) -> Sequence[float]:
    return values


def timed(
    rounds: Rounds,
    *,
    state: Callable[[], dict[str, Any]],
    agree: Agree = unchanged,
    heat_ns: float = 0,
) -> dict[str, Any]:
    """The duration of one launch.

    Args:
        state: returns the state of the GPU; called during the measurement.
        agree: for processes that measure together.
        heat_ns: how long the GPU works before the measurement.
    """
    rounds.start(1)()  # the first round may compile or load something
    (once,) = agree([rounds.start(1)()])
    # Long enough samples, with enough launches if they are short.
    enough = min(math.ceil(_LAUNCHES / rounds.launches), max(1, int(_LONG_SAMPLE_NS / once)))
    count = max(math.ceil(_SAMPLE_NS / once), enough)
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
    """Pauses after heavy work, because the power limit lowers the clock for a while."""
    time.sleep(_SETTLE_S)


Launch = Callable[[], Any]

_GRAPH_NS = 2e6  # so that the pauses between graphs are short in comparison
_MOST_IN_GRAPH = 500
_LEAST_IN_GRAPH = 20


def eager(launches: Sequence[Launch]) -> Rounds:
    """Launches one after the other from Python, for work that takes longer than a launch."""

    def round_() -> None:
        for launch in launches:
            launch()

    return Rounds(_by_events(round_), len(launches))


def in_graph(launches: Sequence[Launch], *, agree: Agree = unchanged) -> Rounds:
    """Launches in a CUDA graph, in turn, without the overhead of Python."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as CUDA requires before a capture
        rounds = eager(launches)
        rounds.start(2)()
        (launch_ns,) = agree([rounds.start(2)() / (2 * rounds.launches)])
    torch.cuda.current_stream().wait_stream(side)
    wanted = min(max(math.ceil(_GRAPH_NS / launch_ns), _LEAST_IN_GRAPH), _MOST_IN_GRAPH)
    whole = len(launches) * math.ceil(wanted / len(launches))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in islice(cycle(launches), whole):
            launch()
    return Rounds(_by_events(graph.replay), whole)


def _by_events(round_: Callable[[], None]) -> Start:
    import torch

    def start(rounds: int) -> Callable[[], float]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(rounds):
            round_()
        end.record()

        def finish() -> float:
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1e6

        return finish

    return start


_BURSTS = 9
_BURST_NS = 4e6
_REST_S = 0.05  # before a burst, many times as long as the burst


def in_bursts(work: Rounds, *, state: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The duration of one launch, that is, of its kernels, in bursts after rests.

    A burst is so short that the power limit does not act. The fastest launch counts as what the
    GPU can reach: between the lighter kernels of a model, each product can be as fast. Raises
    RuntimeError if the profiler does not see equally many kernels for each launch.
    """
    work.start(1)()  # the first round may compile or load something
    rounds = max(1, int(_BURST_NS / work.start(1)()))
    launches, states = [], []
    for _ in range(_BURSTS):
        time.sleep(_REST_S)
        seen = kernel_durations_ns(work, rounds, meanwhile=lambda: states.append(state()))
        each, rest = divmod(len(seen), rounds * work.launches)
        if rest or not each:
            count = rounds * work.launches
            raise RuntimeError(f"the profiler saw {len(seen)} kernels of {count} launches")
        launches += [sum(seen[start : start + each]) for start in range(0, len(seen), each)]
    middle = median(launches)
    return {
        "ns": middle,
        "mad_ns": median(abs(one - middle) for one in launches),
        "fastest_ns": min(launches),
        "launches": len(launches),
        **states[_BURSTS // 2],
    }


def kernel_durations_ns(
    work: Rounds, rounds: int = 1, *, meanwhile: Callable[[], Any] | None = None
) -> list[float]:
    """Durations of the kernels in a number of rounds, in order; empty if the profiler sees none.

    `meanwhile` is called while the GPU works.
    """
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        finish = work.start(rounds)
        if meanwhile:
            meanwhile()
        finish()
    return [
        float(round(event.time_range.elapsed_us() * 1e3))
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
        and not event.is_user_annotation
        and not event.name.startswith(("Mem", "nccl:"))  # copies, and ranges of NCCL
    ]
