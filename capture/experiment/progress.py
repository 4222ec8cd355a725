"""The progress of an experiment: what is done, what is left, and how long that will take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

from capture.experiment.block import Done
from capture.experiment.points import Block, Points

_FIRST_START_S, _FIRST_POINT_S = 90.0, 20.0  # assumed before the first measurement
_STARTS = 2  # repeats in which an engine may fail to start before it is not started again


@dataclass(frozen=True)
class Overview:
    """What an experiment will run.

    Attributes:
        done: repeats that the folder of results has already.
        left: repeats that are to be run.
        seconds: their estimated time, with start_s for a start of a server and point_s for a point.
    """

    points: Points
    blocks: Sequence[Block]
    done: int
    left: int
    seconds: float
    start_s: float
    point_s: float


class Watcher(Protocol):
    """Shows the progress of an experiment."""

    def begin(self, overview: Overview) -> None: ...

    def done(self, done: Done, left: int, seconds: float) -> None:
        """Called after each repeat, with the number of repeats left and their estimated time."""

    def warn(self, message: str) -> None: ...


class Progress:
    """Counts the repeats that are done and passes them to the watcher.

    Attributes:
        failed: how many repeats failed.
    """

    def __init__(self, blocks: Sequence[Block], watcher: Watcher) -> None:
        self.failed = 0
        self.warn = watcher.warn
        self._watcher = watcher
        self._blocks = {(block.engine.key, block.repeat): block for block in blocks}
        self._not_started: dict[str, dict[int, str]] = {}
        self._starts_s: dict[tuple[str, int], float] = {}
        self._points_s: list[float] = []

    def begin(self, points: Points, done: int) -> None:
        """Passes the overview to the watcher."""
        left, seconds = self._left()
        blocks = list(self._blocks.values())
        self._watcher.begin(
            Overview(points, blocks, done, left, seconds, self._start_s, self._point_s)
        )

    def add(self, done: Done) -> None:
        self.failed += done.reason is not None
        key = done.block.engine.key, done.block.repeat
        if done.start_s is not None:
            self._points_s.append(done.seconds)
            self._starts_s[key] = done.start_s
        elif done.reason:
            self._not_started.setdefault(key[0], {})[key[1]] = done.reason
        left = [p for p in self._blocks[key].points if p.path != done.point.path]
        self._blocks[key] = replace(self._blocks[key], points=left)
        self._watcher.done(done, *self._left())

    def why_not_started(self, block: Block) -> str | None:
        """Why the server of a block is not started again; None if it is."""
        reasons = list(self._not_started.get(block.engine.key, {}).values())
        if len(reasons) < _STARTS:
            return None
        return f"not run: its server failed to start in {len(reasons)} repeats; {reasons[-1]}"

    @property
    def _start_s(self) -> float:
        """Median time of a start of a server."""
        return median(self._starts_s.values()) if self._starts_s else _FIRST_START_S

    @property
    def _point_s(self) -> float:
        """Median time of a repeat of a point."""
        return median(self._points_s) if self._points_s else _FIRST_POINT_S

    def _left(self) -> tuple[int, float]:
        """The number of repeats that are left, and their estimated seconds."""
        counts = [len(block.points) for block in self._blocks.values() if block.points]
        return sum(counts), sum(self._start_s + self._point_s * count for count in counts)
