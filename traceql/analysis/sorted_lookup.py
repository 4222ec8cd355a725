"""Looks numbers up in sorted ones; -1 stands for what is unknown, which Arrow has as NULL."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def places(sorted_numbers: Int64s, wanted: Int64s) -> Int64s:
    """The first place of each wanted number; -1 if it is not there."""
    place = np.searchsorted(sorted_numbers, wanted)
    place[place == len(sorted_numbers)] = -1
    place[at(sorted_numbers, place) != wanted] = -1
    return place


def at(numbers: Int64s, place: Int64s) -> Int64s:
    """The number at each place; -1 at place -1."""
    return np.append(numbers, -1)[place]


def known(numbers: Int64s, *, where: Bools | None = None) -> pa.Array:
    """The numbers, but NULL instead of negative ones, or except `where` they are known."""
    return pa.array(numbers, mask=~where if where is not None else numbers < 0)
