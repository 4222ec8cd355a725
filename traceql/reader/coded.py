"""Dictionary encoding: values as codes, which are positions among the distinct values."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class DistinctValues(dict[Any, int]):
    """The distinct values so far and their codes: 0, 1, 2, ... in the order of first use."""

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Sequence[Hashable]) -> Int64s:
        """The code of each value; values not seen before get the next codes."""
        return np.fromiter(map(self.__getitem__, values), np.int64, len(values))


def concatenated(parts: Iterable[Int64s]) -> Int64s:
    """All parts as one array, which is empty if there are no parts."""
    return np.concatenate([np.empty(0, np.int64), *parts])
