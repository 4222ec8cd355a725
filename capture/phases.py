"""How a capture reports its progress: in phases, such as warm-up, recording and writing."""

from collections.abc import Callable

# Called with a phase, how many items of it are done, and how many there are (0 if unknown).
OnPhase = Callable[[str, int, int], None]


def ignore_phase(_phase: str, _count: int, _total: int) -> None:
    """An OnPhase for callers that do not show progress."""
