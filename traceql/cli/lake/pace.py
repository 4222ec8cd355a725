"""How fast runs are added, and how long the others will take."""

from time import monotonic


class Pace:
    """Counts the bytes of traces that are done."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._done = self._total = 0

    def note(self, done: int, total: int) -> None:
        """Takes how many bytes are done, and of how many; with none done, time begins."""
        if not done:
            self._began = monotonic()
        self._done, self._total = done, total

    def text(self) -> str:
        """What is left, in brackets; empty if nothing is, or nothing is known."""
        left, elapsed = self._total - self._done, monotonic() - self._began
        if not left or not self._done or not elapsed:
            return ""
        rate = self._done / elapsed
        return (
            f" ({100 * self._done / self._total:.0f}% of {self._total / 1e6:,.0f} MB of traces, "
            f"{rate / 1e6:,.1f} MB/s, about {_duration(left / rate)} left)"
        )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
