"""Values as codes into the distinct ones."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value", bound=Hashable)


def coded(values: Sequence[Value]) -> tuple[list[Value], npt.NDArray[np.int64]]:
    """The distinct values in the order of their first use, and for each value its place there."""
    place = {value: n for n, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(place.__getitem__, values), np.int64, len(values))
    return list(place), codes
