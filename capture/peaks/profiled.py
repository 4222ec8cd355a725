"""Durations of kernels as the profiler sees them, like the durations in a trace."""

from typing import Any

import torch

from capture.peaks.timing import Rounds


def kernel_durations_ns(work: Rounds, rounds: int = 1) -> list[float]:
    """The kernels of so many rounds in their order; empty if the profiler sees none."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work.start(rounds)()
    return [event.time_range.elapsed_us() * 1e3 for event in profiler.events() if _is_kernel(event)]


def _is_kernel(event: Any) -> bool:
    """Whether it is a kernel: not a copy, and not the text that a program wrote beside it."""
    on_gpu: bool = event.device_type == torch.autograd.DeviceType.CUDA
    return on_gpu and not event.is_user_annotation and not event.name.startswith(("Mem", "nccl:"))
