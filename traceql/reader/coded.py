"""Values as codes into the distinct ones."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class DistinctValues(dict[Any, int]):
    """Numbers distinct values from 0, in the order of their first use."""

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Sequence[Hashable]) -> Int64s:
        """The code of each value, new ones numbered."""
        return np.fromiter(map(self.__getitem__, values), np.int64, len(values))


def concatenated(parts: Iterable[Int64s]) -> Int64s:
    """One array of all parts, of which there may be none."""
    return np.concatenate([np.empty(0, np.int64), *parts])
