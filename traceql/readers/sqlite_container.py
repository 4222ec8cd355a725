"""The tables of an SQLite file as Arrow batches.

ADBC reads the rows. It takes the type of a column from its first rows, so every statement begins
with a row of the wanted types. Python's sqlite3 reads the catalogue, and finds the value to name in
an error after ADBC has failed.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.redaction import redacted
from traceql.readers.scratch import BATCH_ROWS
from traceql.readers.sqlite_file import file_uri, one_line, settled_file
from traceql.readers.unpacked import REMAKE
from traceql.util.files import size_and_mtime
from traceql.util.text import identifier

Expression = Callable[[str, pa.DataType], str]
_BATCH_OPTION = {"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)}


class _Form(NamedTuple):
    """How values of an Arrow type are read."""

    sql: str  # the column
    first: str  # a value of the type
    fits: str  # what `typeof` returns for values of the type
    noun: str  # the type in messages


_ANY = "'integer', 'real', 'text', 'blob'"
_TEXT = "CASE WHEN typeof({0}) <> 'blob' THEN CAST({0} AS BLOB) END"  # not all is UTF-8
_FORMS = {
    pa.int64(): _Form("{}", "0", "'integer'", "an integer"),
    pa.float64(): _Form("{}", "0.0", "'integer', 'real'", "a number"),
    pa.large_string(): _Form(_TEXT, "x''", _ANY, "a text"),
    pa.large_binary(): _Form("CASE WHEN typeof({0}) = 'blob' THEN {0} END", "x''", _ANY, "bytes"),
}


def expression(column: str, type_: pa.DataType) -> str:
    """A column as SQL, where values of another type are errors."""
    return _FORMS[type_].sql.format(identifier(column))


class SqliteContainer:
    """An opened file, which is not compressed. Errors are TraceCorrupt and do not name it.

    Args:
        remake: how to make such a file again, for messages.
        expression: a column as SQL.
    """

    def __init__(
        self, con: sqlite3.Connection, file: Path, remake: str, expression: Expression
    ) -> None:
        self._con, self._file, self.remake, self._expression = con, file, remake, expression
        con.text_factory = lambda text: text.decode("utf-8", "replace")

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a short result of SQLite's own."""
        with one_line():
            return self._con.execute(sql, values).fetchall()

    @cached_property
    def tables(self) -> Mapping[str, str]:
        """`table` or `view` by name."""
        return dict(
            self.query("SELECT name, type FROM sqlite_master WHERE type IN ('table','view')")
        )

    def columns(self, table: str) -> frozenset[str]:
        sql = "SELECT name FROM pragma_table_info(?)"
        found = self.query(sql, (table,)) if table in self.tables else []
        return frozenset(name for (name,) in found)

    def rows(self, table: str) -> int:
        return int(self.query(f"SELECT COUNT(*) FROM {identifier(table)}")[0][0])

    def batches(self, table: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The columns of these types in the order of the file.

        Raises:
            TraceCorrupt: a value is of another type, or the file is damaged.
        """
        firsts = ", ".join(
            f"{_FORMS[type_].first} AS {identifier(n)}" for n, type_ in types.items()
        )
        selected = ", ".join(self._expression(name, type_) for name, type_ in types.items())
        sql = f"SELECT {firsts} UNION ALL SELECT {selected} FROM {identifier(table)}"
        try:
            with adbc.connect(file_uri(self._file)) as con, closing(con.cursor()) as cursor:
                cursor.adbc_statement.set_options(**_BATCH_OPTION)
                cursor.execute(sql)
                skipped = 1
                for batch in cursor.fetch_record_batch():
                    columns = map(_typed, batch.columns, types.values())
                    yield pa.record_batch([*columns], names=[*types]).slice(skipped)
                    skipped = 0
        except (adbc.Error, OSError, pa.ArrowException) as error:
            raise self._explained(table, types, error) from None

    def _explained(
        self, table: str, types: Mapping[str, pa.DataType], error: Exception
    ) -> TraceCorrupt:
        """What is wrong with a table that could not be read."""
        place = "_rowid_" if self.tables[table] == "table" else "NULL"
        for name, type_ in types.items():
            form, column = _FORMS[type_], identifier(name)
            odd = f"typeof({column}) NOT IN ({form.fits}, 'null')"
            sql = f"SELECT {column}, {place} FROM {identifier(table)} WHERE {odd} LIMIT 1"
            for value, row in self.query(sql):
                return TraceCorrupt(
                    f"table {redacted(table)}{'' if row is None else f', row {row}'}: column "
                    f"{redacted(name)} has the value {redacted(value)[:60]!r}, "
                    f"expected {form.noun}; {REMAKE}"
                )
        first, *_ = str(error).splitlines() or [""]
        return TraceCorrupt(f"damaged SQLite file (table {redacted(table)}: {first}); {REMAKE}")


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if wanted == pa.large_string():
        return text(column)
    if column.type not in (wanted, pa.binary()):
        raise pa.ArrowInvalid(f"{column.type} in place of {wanted}")
    return column.cast(wanted)


def text(column: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 is replaced."""
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        values = (one and one.decode("utf-8", "replace") for one in column.to_pylist())
        return pa.array(values, pa.large_string())


@contextmanager
def opened_sqlite(
    path: Path, folder: Path, *, remake: str = REMAKE, expression: Expression = expression
) -> Iterator[SqliteContainer]:
    """Opens a file without leaving anything beside it; a compressed one is unpacked into a folder.

    Raises:
        TraceCorrupt: the file is damaged or incomplete, or changed meanwhile; the message does not
            name it.
    """
    before = size_and_mtime(path)
    file = settled_file(path, folder)
    with one_line(), closing(sqlite3.connect(file_uri(file), uri=True)) as con:
        yield SqliteContainer(con, file, remake, expression)
    if size_and_mtime(path) != before:
        raise TraceCorrupt("changed while it was read; load it when nothing writes it any more")
