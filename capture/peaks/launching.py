"""Rounds of launches on the current CUDA device, timed by CUDA events or by the profiler."""

import math
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from statistics import median
from typing import Any

import torch

from capture.peaks.gpu import Agree, Rounds, own

Launch = Callable[[], Any]

_GRAPH_NS = 2e6  # so that what lies between two graphs is little
_MOST_IN_GRAPH = 500
_LEAST_IN_GRAPH = 20


def eager(launches: Sequence[Launch]) -> Rounds:
    """Launches one after the other from Python, for work that takes longer than a launch."""

    def round_() -> None:
        for launch in launches:
            launch()

    return Rounds(_by_events(round_), len(launches))


def in_graph(launches: Sequence[Launch], *, agree: Agree = own) -> Rounds:
    """Launches in a CUDA graph, in turn, without the time that Python takes."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as CUDA requires before a capture
        (launch_ns,) = agree([_longest_ns(launches)])
    torch.cuda.current_stream().wait_stream(side)
    wanted = min(max(math.ceil(_GRAPH_NS / launch_ns), _LEAST_IN_GRAPH), _MOST_IN_GRAPH)
    whole = len(launches) * math.ceil(wanted / len(launches))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in islice(cycle(launches), whole):
            launch()
    return Rounds(_by_events(graph.replay), whole)


def _longest_ns(launches: Sequence[Launch]) -> float:
    """The duration of a launch from Python, which is at least that of its work."""
    rounds = eager(launches)
    rounds.start(2)()
    return rounds.start(2)() / (2 * rounds.launches)


def _by_events(round_: Callable[[], None]) -> Callable[[int], Callable[[], float]]:
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

    A burst is so short that the limit of power does not act. The fastest launch counts as what the
    GPU can reach: between the lighter kernels of a model, each product can be as fast.

    Raises:
        RuntimeError: the profiler does not see equally many kernels for each launch.
    """
    work.start(1)()  # what comes first may compile or load something
    rounds = max(1, int(_BURST_NS / work.start(1)()))
    launches, states = [], []
    for _ in range(_BURSTS):
        time.sleep(_REST_S)
        seen = kernel_durations_ns(work, rounds, meanwhile=lambda: states.append(state()))
        launches += _of_launches(seen, rounds * work.launches)
    middle = median(launches)
    return {
        "ns": middle,
        "mad_ns": median(abs(one - middle) for one in launches),
        "fastest_ns": min(launches),
        "launches": len(launches),
        **states[_BURSTS // 2],
    }


def _of_launches(kernels_ns: Sequence[float], launches: int) -> list[float]:
    each, rest = divmod(len(kernels_ns), launches)
    if rest or not each:
        raise RuntimeError(f"the profiler saw {len(kernels_ns)} kernels of {launches} launches")
    starts = range(0, len(kernels_ns), each)
    return [sum(kernels_ns[start : start + each]) for start in starts]


def kernel_durations_ns(
    work: Rounds, rounds: int = 1, *, meanwhile: Callable[[], Any] | None = None
) -> list[float]:
    """The kernels of so many rounds in their order; empty if the profiler sees none.

    Args:
        meanwhile: called while the GPU works.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        finish = work.start(rounds)
        if meanwhile:
            meanwhile()
        finish()
    kernels = (event for event in profiler.events() if _is_kernel(event))
    return [float(round(kernel.time_range.elapsed_us() * 1e3)) for kernel in kernels]


def _is_kernel(event: Any) -> bool:
    """Whether it is a kernel: not a copy, and not the text that a program wrote beside it."""
    on_gpu: bool = event.device_type == torch.autograd.DeviceType.CUDA
    return on_gpu and not event.is_user_annotation and not event.name.startswith(("Mem", "nccl:"))
