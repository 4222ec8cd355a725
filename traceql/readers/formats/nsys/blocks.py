"""In which blocks of a table the rows of each rank are, so that few rows are read in vain.

Exports are in the order of time, or nearly, so that a window of time is a few blocks of row
numbers. One scan of a table says how many rows each rank has in each block, from when to when.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.nsys import windows
from traceql.readers.formats.nsys.block import Block, Owner, blocks_in
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.rows import Rows
from traceql.readers.formats.nsys.windows import Window
from traceql.readers.sqlite_pages import ROWID

_BLOCKS = 25  # of the rows of a window, at least
_MOST_RANGES = 20  # of row numbers in one condition


class Blocks:
    """The blocks of the rows of one kind, of all owners.

    Args:
        bits: of a row number, which tell the rows of a block apart; the others number the blocks.
    """

    def __init__(self, rows: Rows, bits: int, blocks: Sequence[Block]) -> None:
        self._rows, self._bits, self._blocks = rows, bits, blocks

    @property
    def owners(self) -> Collection[Owner]:
        return {block.owner for block in self._blocks}

    def of_rank(self, owners: Collection[Owner]) -> "RankRows":
        """What of the rows belongs to a rank."""
        mine = set(owners)
        found = [block for block in self._blocks if block.owner in mine]
        return RankRows(self._rows, found, self._bits, is_all=len(found) == len(self._blocks))


def scanned(export: Export, kinds: Sequence[Rows]) -> Sequence[Blocks]:
    """The blocks of each kind of rows; kinds of one table are found in one scan."""
    bits = max(1, windows.ROWS // _BLOCKS).bit_length() - 1
    found: list[dict[tuple[int, Owner], Block]] = [{} for _ in kinds]
    for table in dict.fromkeys(rows.table for rows in kinds):
        own = [(rows, found[at]) for at, rows in enumerate(kinds) if rows.table == table]
        columns = frozenset[str]().union(*(rows.columns for rows, _ in own))
        for batch in export.integers.batches(table, columns):
            for rows, known in own:
                for block in blocks_in(export, rows, bits, batch):
                    place = block.number, block.owner
                    known[place] = known[place].with_more(block) if place in known else block
    return [
        Blocks(rows, bits, list(known.values())) for rows, known in zip(kinds, found, strict=True)
    ]


@dataclass(frozen=True)
class RankRows:
    """The rows of one kind that belong to one rank."""

    rows: Rows
    blocks: Sequence[Block]
    bits: int
    is_all: bool

    @property
    def kept(self) -> int:
        return sum(block.kept for block in self.blocks)

    @property
    def dur(self) -> int:
        return sum(block.dur for block in self.blocks)

    @property
    def left_out(self) -> int:
        return sum(block.left_out for block in self.blocks)

    @property
    def odd(self) -> int:
        return sum(block.odd for block in self.blocks)

    def condition(self, window: Window) -> str | None:
        """The SQL condition for those that are loaded in a window; None if there are none."""
        ranges = self.ranges(window)
        if not ranges:
            return None
        if len(ranges) > _MOST_RANGES:
            ranges = [(ranges[0][0], ranges[-1][1])]
        rows = self.rows
        numbered = " OR ".join(f"{ROWID} BETWEEN {first} AND {last}" for first, last in ranges)
        parts = [f"({rows.where.sql})", f"({rows.kept.sql})", window.sql(f'"{rows.start}"')]
        return " AND ".join([*parts, f"({numbered})", *([] if self.is_all else [self._owned()])])

    def ranges(self, window: Window) -> Sequence[tuple[int, int]]:
        """The least and the largest row numbers between which are those of a window."""
        numbers = sorted({block.number for block in self.blocks if _is_in(block, window)})
        return [(first << self.bits, (last + 1 << self.bits) - 1) for first, last in _runs(numbers)]

    def chosen(self, found: pa.Table, window: Window) -> pa.Table:
        """Those of some rows, whose columns are integers, that are loaded in a window."""
        rows = self.rows
        masks = [rows.where.of(found), rows.kept.of(found), *window.holds(found[rows.start])]
        if not self.is_all:
            masks.append(self._are_owned(found))
        return found.filter(reduce(pc.and_kleene, masks))

    def _owned(self) -> str:
        terms = [term.sql for term in self.rows.owner]
        listed = ", ".join(f"({', '.join(map(str, owner))})" for owner in self._owners)
        return f"({', '.join(terms)}) IN (VALUES {listed})"

    def _are_owned(self, found: pa.Table) -> pa.Array:
        """Whether each row is of the rank."""
        values = [term.of(found) for term in self.rows.owner]
        if len(values) == 1:
            return pc.is_in(values[0], pa.array([one for (one,) in self._owners], pa.int64()))
        each = [
            reduce(
                pc.and_, (pc.equal(value, one) for value, one in zip(values, owner, strict=True))
            )
            for owner in self._owners
        ]
        return reduce(pc.or_, each)

    @property
    def _owners(self) -> Sequence[Owner]:
        return sorted({block.owner for block in self.blocks})


def _is_in(block: Block, window: Window) -> bool:
    if not block.kept:
        return False
    if block.has_odd_times or block.first is None or block.last is None:
        return True
    begins = window.end is None or block.first < window.end
    return begins and (window.begin is None or block.last >= window.begin)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of consecutive numbers."""
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]
