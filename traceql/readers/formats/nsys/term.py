"""A value of each row of a table, told twice: as SQL, and as what Arrow makes of integers.

The integers come from the pages of the file (sqlite_pages.py). What cannot be read so, SQLite reads
and computes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

Values: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, eq=False)
class Term:
    """A value of each row.

    Attributes:
        sql: the value as SQL.
        columns: the columns that it is made of.
        of: the values of rows whose columns are integers; raises ArrowInvalid for what only SQLite
            can tell.
    """

    sql: str
    columns: frozenset[str]
    of: Callable[[pa.Table], Values]


def columns_of(terms: Iterable[Term]) -> frozenset[str]:
    """The columns that terms are made of."""
    return frozenset[str]().union(*(term.columns for term in terms))
