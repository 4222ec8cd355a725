"""What of an experiment is done, what is left, and how long that will take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from capture.experiment.block import Done
from capture.experiment.points import Points
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


_STARTS = 2  # repeats in which an engine may fail to start before it is given up


@dataclass(frozen=True)
class Ahead:
    """What an experiment will do, told before it starts.

    Attributes:
        done: repeats that the folder has already.
        left: repeats that are to be run.
        seconds: estimated time of these, with start_s for a start of a server and point_s a point.
    """

    points: Points
    blocks: Sequence[Block]
    done: int
    left: int
    seconds: float
    start_s: float
    point_s: float


@dataclass(frozen=True)
class Watcher:
    """Who is told what happens.

    Attributes:
        done: called with each repeat, how many are left, and their estimated seconds.
    """

    ahead: Callable[[Ahead], None]
    done: Callable[[Done, int, float], None]
    warn: Callable[[str], None]


class Account:
    """Hears of each repeat that is done, and tells the watcher.

    Attributes:
        failed: how many repeats failed.
    """

    def __init__(self, blocks: Sequence[Block], watcher: Watcher) -> None:
        self.failed = 0
        self._watcher = watcher
        self._estimate = Estimate()
        self._blocks = {(block.engine.key, block.repeat): block for block in blocks}
        self._not_started: dict[str, dict[int, str]] = {}

    def begin(self, points: Points, done: int) -> None:
        """Tells what is ahead."""
        estimate, blocks = self._estimate, list(self._blocks.values())
        left = sum(len(block.points) for block in blocks)
        seconds = estimate.seconds(blocks)
        self._watcher.ahead(
            Ahead(points, blocks, done, left, seconds, estimate.start_s, estimate.point_s)
        )

    def tell(self, done: Done) -> None:
        self.failed += done.reason is not None
        self._estimate.add(done)
        key = done.block.engine.key, done.block.repeat
        block = self._blocks[key]
        left = [point for point in block.points if point.path != done.point.path]
        self._blocks[key] = replace(block, points=left)
        if done.reason and done.start_s is None:
            self._not_started.setdefault(key[0], {})[key[1]] = done.reason
        ahead = [block for block in self._blocks.values() if block.points]
        count = sum(len(block.points) for block in ahead)
        self._watcher.done(done, count, self._estimate.seconds(ahead))

    def warn(self, message: str) -> None:
        self._watcher.warn(message)

    def gave_up(self, block: Block) -> str | None:
        """Why a server is not started again; None if it is."""
        reasons = list(self._not_started.get(block.engine.key, {}).values())
        if len(reasons) < _STARTS:
            return None
        return f"not run: its server failed to start in {len(reasons)} repeats; {reasons[-1]}"
