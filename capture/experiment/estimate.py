"""How long an experiment will take, from what its starts and points took so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from capture.experiment.block import Done
from capture.experiment.schedule import Block

_FIRST_START_S, _FIRST_POINT_S = 90.0, 20.0  # assumed until one is known


@dataclass
class Estimate:
    """Medians of what was measured in this run of the experiment."""

    _starts_s: dict[tuple[str, int], float] = field(default_factory=dict)
    _points_s: list[float] = field(default_factory=list)

    def add(self, done: Done) -> None:
        """Counts a repeat; of those that share a start of the server, the start counts once."""
        if done.start_s is not None:
            self._points_s.append(done.seconds)
            self._starts_s[done.block.engine.key, done.block.repeat] = done.start_s

    @property
    def start_s(self) -> float:
        """Of one start of a server."""
        return median(self._starts_s.values()) if self._starts_s else _FIRST_START_S

    @property
    def point_s(self) -> float:
        """Of one repeat of a point."""
        return median(self._points_s) if self._points_s else _FIRST_POINT_S

    def seconds(self, blocks: Sequence[Block]) -> float:
        """Of blocks that are to be run."""
        return sum(self.start_s + self.point_s * len(block.points) for block in blocks)
