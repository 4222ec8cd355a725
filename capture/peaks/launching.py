"""Rounds of launches on the current CUDA device, timed by CUDA events."""

import math
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import torch

from capture.peaks.timing import Agree, Rounds, own

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
