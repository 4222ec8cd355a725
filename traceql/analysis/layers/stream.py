"""The kernels of one stream as a text."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """The kernels of one stream of one rank, in the order of their starts.

    Attributes:
        letters: one letter per kernel, that of its symbol.
        step: the step_id of each kernel; -1 if it has none.
    """

    letters: str
    step: Int64s

    def texts(self, starts: Iterable[int], ends: Iterable[int]) -> list[str]:
        """The letters from each start to its end; those that are equal are one object in memory."""
        found: dict[str, str] = {}
        texts = (self.letters[start:end] for start, end in zip(starts, ends, strict=True))
        return [found.setdefault(text, text) for text in texts]

    @cached_property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The letters as an array of ASCII codes."""
        return np.frombuffer(self.letters.encode("ascii"), np.uint8)

    @cached_property
    def _step_starts(self) -> Int64s:
        return np.append(0, np.flatnonzero(np.diff(self.step)) + 1)

    def step_bounds(self, at: int) -> tuple[int, int]:
        """The step that the kernel `at` is in: its first kernel, and the kernel after its last."""
        place = int(np.searchsorted(self._step_starts, at, side="right"))
        starts = self._step_starts
        end = int(starts[place]) if place < len(starts) else len(self.letters)
        return int(starts[place - 1]), end

    def positions(self, letters: str) -> Int64s:
        """The kernels that have one of these letters."""
        return np.flatnonzero(self._have(letters))

    def positions_of_others(self, letters: str) -> Int64s:
        """The kernels that have none of these letters."""
        return np.flatnonzero(~self._have(letters))

    def _have(self, letters: str) -> npt.NDArray[np.bool_]:
        return np.isin(self.codes, np.frombuffer(letters.encode("ascii"), np.uint8))
