"""The duration of a kernel that has next to nothing to do, and of the gap to the next one."""

from statistics import median
from typing import Any

import torch

from capture.peaks.gpu import Gpu
from capture.peaks.launching import in_graph
from capture.peaks.profiled import kernel_durations_ns
from capture.peaks.timing import timed

_NUMBERS = 4096  # 8 KiB, as a token of a model has


def small_kernel(gpu: Gpu) -> dict[str, Any]:
    """Its duration as the profiler sees it, like the durations in a trace.

    `period_ns` is the time from kernel to kernel in a CUDA graph.

    Raises:
        RuntimeError: the profiler sees no kernels on this machine.
    """
    numbers = torch.randn(_NUMBERS, dtype=torch.bfloat16)
    rounds = in_graph([lambda: numbers.neg_()])
    period = timed(rounds, state=gpu.state)
    seen = kernel_durations_ns(rounds)[1:]  # the first may wait for the graph
    if not seen:
        raise RuntimeError("the profiler saw no kernels")
    found = median(seen)
    spread = median(abs(one - found) for one in seen)
    clocks = {name: period[name] for name in ("sm_clock_mhz", "throttle_reasons")}
    return {"ns": found, "mad_ns": spread, "period_ns": period["ns"], **clocks}
