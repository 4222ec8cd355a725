"""In which blocks of a table the rows of each rank are, so that few rows are read in vain.

Exports are in the order of time, or nearly, so that a window of time is a few blocks of row
numbers. One scan of a table says how many rows each rank has in each block, from when to when.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from traceql.reader.nsys import windows
from traceql.reader.nsys.export import Export
from traceql.reader.nsys.windows import Window

_BLOCKS = 25  # of the rows of a window
_MOST_RANGES = 20  # of row numbers in one condition
Owner = tuple[int, ...]  # process and device, thread, or type of metrics


@dataclass(frozen=True)
class Rows:
    """Rows of one kind, as SQL.

    Attributes:
        table: the table, or a query in brackets.
        owner: what tells the rank of a row.
        start: the time of a row.
        where: the condition for rows of this kind.
        kept: the condition for those of them that are loaded.
        dur: the duration of a row, ns.
        odd: the condition for loaded rows of which a value is not.
    """

    table: str
    owner: Sequence[str]
    start: str
    where: str = "TRUE"
    kept: str = "TRUE"
    dur: str = "0"
    odd: str = "FALSE"


class Block(NamedTuple):
    """The rows of one owner in a block: numbers, duration, ns, and the first and last start."""

    number: int
    owner: Owner
    kept: int
    left_out: int
    odd: int
    dur: int
    has_odd_times: bool  # which are refused when they are read
    first: int | None
    last: int | None


class Blocks:
    """The blocks of the rows of one kind, of all owners."""

    def __init__(self, export: Export, rows: Rows) -> None:
        self._rows = rows
        self._size = max(1, windows.ROWS // _BLOCKS)
        self._blocks = list(self._scanned(export))

    @property
    def owners(self) -> Collection[Owner]:
        return {block.owner for block in self._blocks}

    def of_rank(self, owners: Collection[Owner]) -> "RankRows":
        """What of the rows belongs to a rank."""
        mine = set(owners)
        found = [block for block in self._blocks if block.owner in mine]
        return RankRows(self._rows, found, self._size, is_all=len(found) == len(self._blocks))

    def _scanned(self, export: Export) -> Iterator[Block]:
        rows, owners = self._rows, len(self._rows.owner)
        kept = f"({rows.kept}) IS TRUE"
        keys = ", ".join(f"owner_{number}" for number in range(owners))
        sql = f"""
            SELECT
                {keys},
                block,
                SUM(is_kept),
                SUM(NOT is_kept),
                SUM(is_odd),
                SUM(dur >> 32),
                SUM(dur & {2**32 - 1}),
                SUM(is_kept AND start IS NULL),
                MIN(start),
                MAX(start)
            FROM (
                SELECT
                    {", ".join(f"{sql} AS owner_{n}" for n, sql in enumerate(rows.owner))},
                    rowid / {self._size} AS block,
                    {kept} AS is_kept,
                    {kept} AND ({rows.odd}) AS is_odd,
                    CASE WHEN {kept} THEN COALESCE({rows.dur}, 0) ELSE 0 END AS dur,
                    CASE WHEN {kept} AND typeof({rows.start}) = 'integer' THEN {rows.start} END
                        AS start
                FROM {rows.table}
                WHERE {rows.where}
            )
            GROUP BY {keys}, block
        """
        for row in export.rows(sql):
            number, n, left_out, odd, high, low, odd_times, first, last = row[owners:]
            dur_ns = (high << 32) + low  # a sum of whole durations may not fit
            yield Block(
                number, row[:owners], n, left_out, odd, dur_ns, bool(odd_times), first, last
            )


@dataclass(frozen=True)
class RankRows:
    """The rows of one kind that belong to one rank."""

    rows: Rows
    blocks: Sequence[Block]
    size: int
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
        numbers = sorted({block.number for block in self.blocks if _is_in(block, window)})
        if not numbers:
            return None
        rows = self.rows
        parts = [rows.where, f"({rows.kept})", window.sql(rows.start), self._numbered(numbers)]
        return " AND ".join([*parts, *([] if self.is_all else [self._owned()])])

    def _numbered(self, blocks: Sequence[int]) -> str:
        ranges = [(first * self.size, (last + 1) * self.size - 1) for first, last in _runs(blocks)]
        if len(ranges) > _MOST_RANGES:
            ranges = [(ranges[0][0], ranges[-1][1])]
        return f"({' OR '.join(f'rowid BETWEEN {first} AND {last}' for first, last in ranges)})"

    def _owned(self) -> str:
        owners = sorted({block.owner for block in self.blocks})
        if len(self.rows.owner) == 1:
            return f"{self.rows.owner[0]} IN ({', '.join(str(one) for (one,) in owners)})"
        listed = ", ".join(f"({', '.join(map(str, owner))})" for owner in owners)
        return f"({', '.join(self.rows.owner)}) IN (VALUES {listed})"


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
