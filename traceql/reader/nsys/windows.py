"""Parts of the time of a recording, which are read one after the other to bound the memory."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceql.reader.nsys.export import Export

ROWS = 500_000  # of a window, about; each takes about 1 kB while it is read
_SAMPLES = 100_000  # starts that are looked at to choose the windows


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


WHOLE = Window()


def windows(export: Export, starts: Collection[tuple[str, str]]) -> list[Window]:
    """Windows of about as many rows each, in the order of time; one for a small file.

    Args:
        starts: the tables of events, and the column of each that has the start.
    """
    sizes = [int(export.value(f"SELECT MAX(rowid) FROM {table}") or 0) for table, _ in starts]
    if sum(sizes) <= ROWS:
        return [WHOLE]
    step = max(1, sum(sizes) // _SAMPLES)
    found = [
        int(start)
        for table, column in starts
        for (start,) in export.rows(
            f"SELECT {column} FROM {table} "
            f"WHERE rowid % {step} = 0 AND typeof({column}) = 'integer'"
        )
    ]
    if not found:
        return [WHOLE]
    number = -(-sum(sizes) // ROWS)
    shares = np.arange(1, number) / number
    borders = np.unique(np.quantile(np.array(found), shares, method="lower")).tolist()
    return [Window(begin, end) for begin, end in pairwise([None, *borders, None])]
