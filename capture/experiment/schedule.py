"""The order of an experiment: blocks of points that share one start of a server."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capture.experiment.points import Engine, Point, Points

PROFILED = 0  # the number of the repeat under the profiler


@dataclass(frozen=True)
class Block:
    """One start of a server, and the points that it measures, in this order.

    Attributes:
        repeat: counted from 1; PROFILED under the profiler.
    """

    engine: Engine
    repeat: int
    points: Sequence[Point]

    @property
    def is_profiled(self) -> bool:
        return self.repeat == PROFILED

    @property
    def name(self) -> str:
        return repeat_name(self.repeat)


def repeat_name(repeat: int) -> str:
    """The folder of a repeat."""
    return "profiled" if repeat == PROFILED else f"repeat-{repeat}"


def blocks(
    points: Points, *, repeats: int, profile: bool, seed: int, is_done: Callable[[Point, int], bool]
) -> list[Block]:
    """What is left to do, in its order.

    All engines have their first repeat before any has its second, so that a drift of the machine
    meets all of them; within a repeat their order is shuffled. Profiled repeats come last.

    Args:
        is_done: whether a repeat of a point needs nothing more.
    """
    order = random.Random(seed)
    found = []
    for repeat in [*range(1, repeats + 1), *([PROFILED] if profile else [])]:
        engines = list(points.engines)
        order.shuffle(engines)
        for engine in engines:
            left = [point for point in points.of(engine) if not is_done(point, repeat)]
            if left:
                found.append(Block(engine, repeat, left))
    return found
