"""Measures how much of the time in many intervals lies between two instants."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Elapsed:
    """A set of intervals. If intervals overlap, their time counts once for each of them."""

    starts: Int64s  # sorted, ns
    ends: Int64s  # sorted, ns
    _starts_sum: Int64s
    _ends_sum: Int64s

    @classmethod
    def of(cls, ts: Int64s, dur: Int64s) -> Self:
        """From starts and durations in any order, ns; no duration may be negative."""
        starts, ends = np.sort(ts), np.sort(ts + dur)
        return cls(starts, ends, _sums(starts), _sums(ends))

    def before(self, instants: Int64s) -> Int64s:
        """Total time in the intervals before each instant, ns.

        The sums of instants may wrap around at 64 bits; their difference is right all the same.
        """
        begun = np.searchsorted(self.starts, instants)
        ended = np.searchsorted(self.ends, instants)
        since_starts = begun * instants - self._starts_sum[begun]
        since_ends = ended * instants - self._ends_sum[ended]
        elapsed: Int64s = since_starts - since_ends
        return elapsed

    def between(self, begin: Int64s, end: Int64s) -> Int64s:
        """Total time in the intervals from each begin to its end, ns."""
        return self.before(end) - self.before(begin)

    def passes(self, begin: Int64s, end: Int64s) -> Bools:
        """Whether time in the intervals passes from each begin to its end; quicker than `between`.

        No interval may be empty, and each end comes after its begin.
        """
        begun = np.searchsorted(self.starts, end)
        ended: Int64s = np.searchsorted(self.ends, begin, side="right")
        return begun > ended


def _sums(instants: Int64s) -> Int64s:
    """The sums of the first 0, 1, 2 ... instants."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(instants)))
