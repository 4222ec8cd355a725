"""Reads tables of an SQLite file from its pages, by compiled code, where they hold integers.

SQLite steps through a table row by row, and Python makes an object of each value. pages.c takes
many pages at once instead. It refuses all that is unusual, so that SQLite itself must read it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import SEEK_END, FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.coded import runs
from traceql.readers.compiled import Instance, new_instance

Int64s = npt.NDArray[np.int64]
ROWID = "_rowid_"  # the number of a row; a table may have a column rowid of its own
_LEAST_BYTES = 2 << 20  # of a file; with fewer, SQLite takes as long as the start of the code
_AT_ONCE_BYTES = 1 << 20  # of pages
_HEAD_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_LEAF = b"\x0d"  # how a page with rows begins
_PAGE_SIZES = [1 << bits for bits in range(9, 17)]
_DEEPEST = 20  # levels of a tree
_LOCKED = 1 << 30  # where the page is that SQLite never uses
_REFUSED = 0xFFFFFFFF
# What pages.c reports, in its order.
_RESULTS = ("pages", "lasts", "wanted", "child", "child_last", "numbers", "values", "is_null")
_FIRST, _LAST = -(2**63), 2**63 - 1  # row numbers
MOST_COLUMNS = 64


class Batch(NamedTuple):
    """Rows of a table that lie next to each other.

    Attributes:
        first: the least row number that they may have.
        last: the largest.
        rows: their columns, and `ROWID`; None where SQLite must read them.
    """

    first: int
    last: int
    rows: pa.Table | None

    @property
    def condition(self) -> str:
        """The condition for them in SQL."""
        if (self.first, self.last) == (_FIRST, _LAST):
            return "TRUE"
        return f"{ROWID} BETWEEN {self.first} AND {self.last}"


WHOLE_TABLE = Batch(_FIRST, _LAST, None)  # for SQLite to read


class _Leaves(NamedTuple):
    """The pages with rows of a table, in their order, and the largest row number each may have."""

    page: Int64s
    last: Int64s


Trees = dict[int, _Leaves | None]  # by root; None where SQLite must read the table


class Pages:
    """The pages of an opened file.

    Args:
        file: read without a buffer.
        head: its first bytes.

    Attributes:
        trees: what is known of tables so far; another process that has the file open may use it.
    """

    def __init__(self, compiled: Instance, file: FileIO, head: bytes) -> None:
        self._compiled, self._file = compiled, file
        self._size = _page_size(head)
        is_counted = head[24:28] == head[92:96] and any(head[28:32])  # not by old versions
        in_file = file.seek(0, SEEK_END) // self._size
        self._count = int.from_bytes(head[28:32], "big") if is_counted else in_file
        self._at_once = max(1, _AT_ONCE_BYTES // self._size)
        if not compiled.call("start", self._size, head[20], self._at_once):
            raise MemoryError
        self._places = self._found()
        self.trees: Trees = {}

    def batches(
        self,
        root: int,
        columns: Sequence[tuple[int, str]],
        ranges: Sequence[tuple[int, int]] | None = None,
    ) -> Iterator[Batch]:
        """All rows of a table, or at least those with some row numbers, in their order.

        Args:
            root: the first page of the table.
            columns: place among the fields of a record and name of each, in that order.
            ranges: the least and the largest row number of each range; None for all rows.
        """
        if root not in self.trees:
            self.trees[root] = self._leaves(root)
        leaves = self.trees[root]
        if leaves is None:
            yield WHOLE_TABLE
            return
        for begin, end in _chosen(leaves, ranges):
            for first, pages in self._groups(leaves, begin, end):
                yield Batch(first, int(pages.last[-1]), self._decoded(pages, first, columns))

    def _leaves(self, root: int) -> _Leaves | None:
        """The pages with rows of a table; None if the tree is not as SQLite makes them."""
        level = _Leaves(np.array([root]), np.array([_LAST]))
        above: list[Int64s] = []
        for _ in range(_DEEPEST):
            above.append(level.page)
            if not self._are_pages(np.concatenate(above)):
                return None
            self._file.seek((int(level.page[0]) - 1) * self._size)
            if self._file.read(1) == _LEAF:
                return level if self._are_sorted(level) else None
            below = self._below(level)
            if below is None:
                return None
            level = below
        return None

    def _are_pages(self, numbers: Int64s) -> bool:
        """Whether all are pages of the file, and none is there twice."""
        if len(numbers) > self._count or numbers.min() < 2 or numbers.max() > self._count:
            return False
        if (numbers == _LOCKED // self._size + 1).any():
            return False
        return len(np.unique(numbers)) == len(numbers)

    def _are_sorted(self, leaves: _Leaves) -> bool:
        """Whether the rows are in order: SQLite finds each of them by its number only then."""
        return all(
            self._are_read(pages) and self._compiled.call("are_sorted", len(pages.page), first)
            for first, pages in self._groups(leaves, 0, len(leaves.page))
        )

    def _below(self, level: _Leaves) -> _Leaves | None:
        """The pages that those of a level lead to; None if one does not lead to others."""
        found = []
        for first, pages in self._groups(level, 0, len(level.page)):
            if not self._are_read(pages):
                return None
            count = self._compiled.call("children", len(pages.page), first)
            if count == _REFUSED:
                return None
            self._places = self._found()
            (page,) = self._array("child", np.uint32, 1, count)
            (last,) = self._array("child_last", np.int64, 1, count)
            found.append((page.astype(np.int64), last))
        return _Leaves(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _groups(self, level: _Leaves, begin: int, end: int) -> Iterator[tuple[int, _Leaves]]:
        """As many pages as are read at once, and the least row number that the first may have."""
        for at in range(begin, end, self._at_once):
            some = slice(at, min(at + self._at_once, end))
            first = int(level.last[at - 1]) + 1 if at else _FIRST
            yield first, _Leaves(level.page[some], level.last[some])

    def _decoded(
        self, pages: _Leaves, first: int, columns: Sequence[tuple[int, str]]
    ) -> pa.Table | None:
        """The rows of some pages; None if something in them is refused."""
        if not self._are_read(pages):
            return None
        self._write("wanted", np.array([place for place, _ in columns], np.uint32))
        rows = self._compiled.call("decode", len(pages.page), len(columns), first)
        if rows == _REFUSED:
            return None
        self._places = self._found()
        (number,) = self._array("numbers", np.int64, 1, rows)
        values = self._array("values", np.int64, len(columns), rows)
        is_null = self._array("is_null", np.bool_, len(columns), rows)
        found = {ROWID: pa.array(number)}
        for (_, name), own, null in zip(columns, values, is_null, strict=True):
            found[name] = pa.array(own, mask=null if null.any() else None)
        return pa.table(found)

    def _are_read(self, pages: _Leaves) -> bool:
        """Reads pages into the memory of the compiled code; False if the file ends too early."""
        self._write("lasts", pages.last)
        memory, begin = self._compiled.memory(), self._places["pages"]
        for run in runs(pages.page - np.arange(len(pages.page))):
            end = begin + (run.stop - run.start) * self._size
            self._file.seek((int(pages.page[run.start]) - 1) * self._size)
            if self._file.readinto(memory[begin:end].data) != end - begin:
                return False
            begin = end
        return True

    def _found(self) -> dict[str, int]:
        """Where what the compiled code has is in its memory."""
        found = self._compiled.numbers(self._compiled.call("results"), len(_RESULTS))
        return dict(zip(_RESULTS, found, strict=True))

    def _write(self, name: str, values: npt.NDArray[Any]) -> None:
        begin = self._places[name]
        self._compiled.memory()[begin : begin + values.nbytes] = values.view(np.uint8)

    def _array(self, name: str, kind: type, columns: int, rows: int) -> npt.NDArray[Any]:
        """A copy of columns that the compiled code has left."""
        begin = self._places[name]
        end = begin + columns * rows * np.dtype(kind).itemsize
        return self._compiled.memory()[begin:end].view(kind).reshape(columns, rows).copy()


def _chosen(leaves: _Leaves, ranges: Sequence[tuple[int, int]] | None) -> Iterator[tuple[int, int]]:
    """The begin and the end of each run of pages that may have rows of these numbers."""
    count = len(leaves.last)
    if ranges is None:
        yield 0, count
        return
    begin = end = 0
    for first, last in sorted(ranges):
        next_begin = int(np.searchsorted(leaves.last, first))
        next_end = min(int(np.searchsorted(leaves.last, last)) + 1, count)
        if next_begin > end:
            if begin < end:
                yield begin, end
            begin = next_begin
        end = max(end, next_end)
    if begin < end:
        yield begin, end


def _page_size(head: bytes) -> int:
    stated = int.from_bytes(head[16:18], "big")
    return stated if stated != 1 else 1 << 16


@contextmanager
def opened_pages(path: Path) -> Iterator[Pages | None]:
    """The pages of a file; None if it is small, compressed or strange, or C cannot run here."""
    with FileIO(path) as file:
        head = file.read(_HEAD_BYTES)
        is_one = head.startswith(_MAGIC) and _page_size(head) in _PAGE_SIZES
        if not is_one or file.seek(0, SEEK_END) < _LEAST_BYTES:
            yield None
            return
        compiled = new_instance("pages")
        yield Pages(compiled, file, head) if compiled else None
