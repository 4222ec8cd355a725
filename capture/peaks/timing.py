"""Rounds of launches on the current CUDA device, timed by CUDA events or by the profiler."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from typing import Any

# Maps the durations of this process to those that all processes of a measurement use.
Agree = Callable[[Sequence[float]], Sequence[float]]
# Starts a number of rounds; returns a function that waits for them and returns their duration, ns.
Start = Callable[[int], Callable[[], float]]

_SAMPLES = 9
_SAMPLE_NS = 4e6  # so that the latency of the first launch is less than 1% of it
_LAUNCHES = 20  # of a sample, unless they take long
_LONG_SAMPLE_NS = 20e6
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Rounds:
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
    """Pauses after heavy work, because the power limit lowers the clock for a while."""
    time.sleep(_SETTLE_S)


def _rounds(round_ns: float, launches: int) -> int:
    """The number of rounds in a sample: long enough, with enough launches if they are short."""
    long_enough = math.ceil(_SAMPLE_NS / round_ns)
    enough = math.ceil(_LAUNCHES / launches)
    affordable = max(1, int(_LONG_SAMPLE_NS / round_ns))
    return max(long_enough, min(enough, affordable))


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
    GPU can reach: between the lighter kernels of a model, each product can be as fast.

    Raises:
        RuntimeError: the profiler does not see equally many kernels for each launch.
    """
    work.start(1)()  # the first round may compile or load something
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
    """Durations of the kernels in a number of rounds, in order; empty if the profiler sees none.

    Args:
        meanwhile: called while the GPU works.
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
