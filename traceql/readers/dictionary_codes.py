"""Dictionary encoding: values as codes, which are positions among the distinct values."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]


class DistinctValues(dict[Any, int]):
    """The distinct values so far and their codes: 0, 1, 2, ... in the order of first use."""

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Sequence[Hashable]) -> Int64s:
        """The code of each value; values not seen before get the next codes."""
        return np.fromiter(map(self.__getitem__, values), np.int64, len(values))


class Recoding:
    """Codes of another numbering, whose values only grow, as codes of `distinct`."""

    def __init__(self, distinct: DistinctValues) -> None:
        self._distinct = distinct
        self._code = np.empty(0, np.int64)  # by code of the other numbering, -1 if not yet used

    def of(self, values: Sequence[Hashable], codes: Int64s) -> Int64s:
        """The codes in `distinct`; values that are new there come in the order of `codes`.

        Args:
            values: all values of the other numbering so far.
            codes: positions in `values`.
        """
        more = len(values) - len(self._code)
        if more:
            self._code = np.concatenate((self._code, np.full(more, -1)))
        found = self._code[codes]
        missing = found < 0
        if missing.any():
            new = in_order_of_use(codes[missing])
            self._code[new] = self._distinct.of([values[code] for code in new.tolist()])
            found = self._code[codes]
        return found


def in_order_of_use(codes: Int64s) -> Int64s:
    """The distinct codes, in the order in which they come first."""
    distinct, first = np.unique(codes, return_index=True)
    return distinct[np.argsort(first)]


def concatenated(parts: Iterable[Int64s]) -> Int64s:
    """All parts as one array, which is empty if there are no parts."""
    return np.concatenate([np.empty(0, np.int64), *parts])


def runs(values: Int64s) -> Iterator[slice]:
    """The places of each run of equal values, in order."""
    borders = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return (slice(begin, end) for begin, end in pairwise(borders) if begin < end)


def distinct_rows(columns: Sequence[Int64s]) -> tuple[list[tuple[int, ...]], Int64s]:
    """The distinct rows of columns of one length, sorted, and the place of each row among them."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if not len(column) or (column == column[0]).all():
            continue  # as most columns of most batches
        values = pa.array(column).dictionary_encode()
        joined = code * len(values.dictionary) + values.indices.to_numpy()
        code = pa.array(joined).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
    order = sorted(range(len(rows)), key=rows.__getitem__)
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    return [rows[number] for number in order], place[code]
