"""Parts of the time of a recording, which are read one after the other to bound the memory."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from traceql.readers.formats.nsys.block import Block
    from traceql.readers.formats.nsys.blocks import RankRows

ROWS = 500_000  # of a window, about; each takes about 1 kB while it is read
PROCESS_BYTES = 700_000_000  # about what a process needs that reads windows
_POINTS = 8  # of time that stand for the rows of a block


@dataclass(frozen=True)
class Window:
    """The events that begin at `begin` or later and before `end`, ns; None is without a limit."""

    begin: int | None = None
    end: int | None = None

    def sql(self, start: str) -> str:
        """The condition for a start. Odd ones, which are refused, are in the first or the last."""
        after = "TRUE" if self.begin is None else f"{start} >= {self.begin}"
        if self.end is None:
            return after
        before = f"{start} < {self.end}"
        return f"({before} OR {start} IS NULL)" if self.begin is None else f"{after} AND {before}"

    def holds(self, start: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
        """The same for starts that are integers: conditions that are true of those in it."""
        if self.begin is not None:
            yield pc.greater_equal(start, self.begin)
        if self.end is not None:
            before = pc.less(start, self.end)
            yield pc.fill_null(before, True) if self.begin is None else before


WHOLE = Window()


def windows(found: Collection["RankRows"]) -> list[Window]:
    """Windows of about as many rows of a rank each, in the order of time; one for few rows.

    Args:
        found: the rows of the rank, of all kinds.
    """
    number = -(-sum(rows.kept for rows in found) // ROWS)
    blocks = [block for rows in found for block in rows.blocks if block.first is not None]
    if number <= 1 or not blocks:
        return [WHOLE]
    times = np.array([_times(block) for block in blocks])
    weights = np.repeat([block.kept for block in blocks], _POINTS)
    order = np.argsort(times, axis=None, kind="stable")
    rows = np.cumsum(weights[order])
    shares = rows[-1] * np.arange(1, number) / number
    borders = np.unique(times.ravel()[order][np.searchsorted(rows, shares)]).tolist()
    return [Window(begin, end) for begin, end in pairwise([None, *borders, None])]


def _times(block: "Block") -> Sequence[int]:
    """Times from the first to the last start of a block, as if the rows were spread evenly."""
    first, last = block.first or 0, block.last or 0
    return [first + (last - first) * point // (_POINTS - 1) for point in range(_POINTS)]
