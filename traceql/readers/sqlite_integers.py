"""Columns of integers of the tables of an SQLite file, by name."""

from collections.abc import Collection, Iterator, Sequence, Set
from typing import NamedTuple

from traceql.readers.sqlite_file import SqliteFile
from traceql.readers.sqlite_pages import MOST_COLUMNS, ROWID, WHOLE_TABLE, Batch, Pages, Trees

_REAL, _TEXT = ("REAL", "FLOA", "DOUB"), ("CHAR", "CLOB", "TEXT")


class _Table(NamedTuple):
    """Where a table is: its first page, the place of each column, and those declared as texts."""

    root: int
    places: dict[str, int]
    texts: Set[str]


class Integers:
    """The tables of an opened file; without pages, SQLite must read all of them."""

    def __init__(self, file: SqliteFile, pages: Pages | None) -> None:
        self._file, self._pages = file, pages
        self._tables: dict[str, _Table | None] = {}

    @property
    def trees(self) -> Trees:
        """What is known of the pages of tables so far."""
        return self._pages.trees if self._pages else {}

    def know(self, trees: Trees) -> None:
        """Takes what another process knows of the same file."""
        if self._pages:
            self._pages.trees |= trees

    def batches(
        self,
        table: str,
        columns: Collection[str],
        ranges: Sequence[tuple[int, int]] | None = None,
    ) -> Iterator[Batch]:
        """All rows of a table, or at least those with some row numbers.

        Args:
            columns: what is wanted of each row. It holds integers and NULL, or SQLite must read it.
            ranges: the least and the largest row number of each range; None for all rows.
        """
        names = set(columns) - {ROWID}
        found = self._table(table)
        if self._pages is None or found is None or not names <= found.places.keys():
            yield WHOLE_TABLE
            return
        wanted = sorted((found.places[name], name) for name in names)
        if len(wanted) > MOST_COLUMNS:
            yield WHOLE_TABLE
            return
        texts = names & found.texts
        for batch in self._pages.batches(found.root, wanted, ranges):
            rows = batch.rows
            if rows and any(rows[name].null_count < rows.num_rows for name in texts):
                batch = batch._replace(rows=None)
            yield batch

    def _table(self, name: str) -> _Table | None:
        if self._pages is None:
            return None
        if name not in self._tables:
            self._tables[name] = self._found(name)
        return self._tables[name]

    def _found(self, name: str) -> _Table | None:
        """Where a table is; None if its records may not have a field for each column.

        A table that the reader made itself hides one of this name in the file.
        """
        if self._file.rows("SELECT 1 FROM temp.sqlite_master WHERE name = ?", [name]):
            return None
        roots = self._file.rows(
            "SELECT rootpage FROM main.sqlite_master "
            "WHERE type = 'table' AND name = ? AND typeof(rootpage) = 'integer'",
            [name],
        )
        columns = self._file.rows(
            "SELECT cid, name, type, pk, hidden FROM pragma_table_xinfo(?, 'main')", [name]
        )
        # A key may be the row number instead of a field, or the order of a table without numbers.
        if len(roots) != 1 or any(key or hidden for *_, key, hidden in columns):
            return None
        places = {column: place for place, column, kind, *_ in columns if _affinity(kind) != "REAL"}
        texts = {column for _, column, kind, *_ in columns if _affinity(kind) == "TEXT"}
        return _Table(roots[0][0], places, texts)


def _affinity(declared: str) -> str:
    """What SQLite makes of numbers in a column: REAL, TEXT, or nothing else (datatype3.html)."""
    upper = declared.upper()
    if "INT" in upper:
        return ""
    if any(word in upper for word in _TEXT):
        return "TEXT"
    return "REAL" if "BLOB" not in upper and any(word in upper for word in _REAL) else ""
