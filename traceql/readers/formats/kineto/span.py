"""Whether the times of all events of a file fit 64 bits."""

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt
from traceql.readers.total_time import absolute_sum, require_sum_fits

Int64s = npt.NDArray[np.int64]
_LARGEST_NS = np.iinfo(np.int64).max


class Span:
    """The first and the last time of events, and how long they last in all."""

    def __init__(self) -> None:
        self._borders: tuple[int, int] | None = None
        self._ends_fit = True
        self._total = 0.0

    def add(self, ts: Int64s, dur: Int64s, points: Int64s) -> None:
        """Takes the starts and durations of slices and the times of instants, ns."""
        ends = ts + np.maximum(dur, 0)
        self._ends_fit &= not (ends < ts).any()
        self._total += absolute_sum(dur)
        every = np.concatenate((ts, ends, points))
        if len(every):
            borders = (int(every.min()), int(every.max()), *(self._borders or ()))
            self._borders = min(borders), max(borders)

    def require_fits(self) -> None:
        """Raises TraceCorrupt if an end, the time between two events, or all durations do not."""
        first, last = self._borders or (0, 0)
        if not self._ends_fit or last - first > _LARGEST_NS:
            raise TraceCorrupt("events are more than 292 years apart; one of their times is wrong")
        require_sum_fits(self._total)

    def include(self, other: "Span") -> None:
        """Takes the events of another part of the file."""
        self._ends_fit &= other._ends_fit
        self._total += other._total
        borders = (*(other._borders or ()), *(self._borders or ()))
        self._borders = (min(borders), max(borders)) if borders else None
