"""Times something that a GPU does again and again: median, spread, and the clock meanwhile."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

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
