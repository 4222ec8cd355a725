"""An export of Nsight Systems: an SQLite file with its texts in table StringIds."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traceql.errors import NotATrace
from traceql.readers.formats.nsys.event_tables import EVENT_TABLES
from traceql.readers.sqlite_file import SqliteFile, connected
from traceql.readers.sqlite_integers import Integers
from traceql.readers.sqlite_pages import Pages, opened_pages

_STRINGS = "StringIds", "id", "value"
_ANEW = "make the file again with nsys export --type sqlite"
_OTHER = (
    "is an SQLite database, but neither of rocprofv3 or Ascend nor an export of Nsight Systems (no "
    "table StringIds with texts); make one with nsys export --type sqlite REPORT.nsys-rep"
)


class Export(SqliteFile):
    """The opened file. All errors are TraceCorrupt and do not name the file.

    Args:
        pages: those of the file, to read integers from; None to let SQLite read all.

    Attributes:
        integers: columns of integers of its tables.
        counted: numbers of rows that are known, by table and SQL of what is counted.
    """

    def __init__(self, con: sqlite3.Connection, pages: Pages | None) -> None:
        super().__init__(con, anew=_ANEW)
        self.integers = Integers(self, pages)
        self.counted: dict[tuple[str, ...], Counter[tuple[Any, ...]]] = {}
        self._integers: dict[tuple[str, tuple[str, ...]], bool] = {}
        self.copy_views(EVENT_TABLES)
        if not self.has(*_STRINGS):
            raise NotATrace(_OTHER)

    def are_integers(self, table: str, columns: tuple[str, ...]) -> bool:
        """Whether columns hold nothing but integers and NULL, as the profiler writes them."""
        if (table, columns) not in self._integers:
            odd = " OR ".join(f"typeof(\"{name}\") NOT IN ('integer', 'null')" for name in columns)
            first = f"SELECT 1 FROM {table} WHERE {odd} LIMIT 1"
            self._integers[table, columns] = not columns or not self.rows(first)
        return self._integers[table, columns]

    def texts(self, ids: Collection[int]) -> dict[int, str]:
        """The texts of these ids, and no others: the table also holds the program's environment."""
        return self.texts_of("StringIds", ids)


@contextmanager
def opened(path: Path) -> Iterator[Export]:
    """Opens an export, compressed or not, without leaving anything beside it.

    Raises:
        TraceCorrupt: the file is damaged, incomplete, or another SQLite database.
    """
    with connected(path) as con, opened_pages(path) as pages:
        yield Export(con, pages)
