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
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.scratch import BATCH_ROWS
from traceql.readers.shown import shown
from traceql.readers.sqlite_file import file_uri, one_line, settled_file
from traceql.readers.unpacked import ANEW
from traceql.util.files import size_and_mtime
from traceql.util.text import identifier

Expression = Callable[[str, pa.DataType], str]
_BATCH_OPTION = {"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)}


class _Form:
    """How values of an Arrow type are read.

    Attributes:
        sql: the column as SQL.
        first: a value of the type as SQL.
        fits: what `typeof` returns for values of the type.
        noun: the type in messages.
    """

    def __init__(self, sql: str, first: str, fits: str, noun: str) -> None:
        self.sql, self.first, self.fits, self.noun = sql, first, fits, noun


_ANY = "'integer', 'real', 'text', 'blob'"
_FORMS = {
    pa.int64(): _Form("{}", "0", "'integer'", "integer"),
    pa.float64(): _Form("{}", "0.0", "'integer', 'real'", "number"),
    # Texts are read as bytes, because not all of them are UTF-8; bytes are no text.
    pa.large_string(): _Form(
        "CASE WHEN typeof({0}) <> 'blob' THEN CAST({0} AS BLOB) END", "x''", _ANY, "text"
    ),
    pa.large_binary(): _Form("CASE WHEN typeof({0}) = 'blob' THEN {0} END", "x''", _ANY, "bytes"),
}


def expression(column: str, type_: pa.DataType) -> str:
    """A column as SQL, where values of another type are errors."""
    return _FORMS[type_].sql.format(identifier(column))


class SqliteContainer:
    """An opened file. Errors are TraceCorrupt and do not name the file.

    Args:
        file: the SQLite file, not compressed.
        anew: how to make such a file again, for messages.
        expression: a column as SQL.
    """

    def __init__(
        self, con: sqlite3.Connection, file: Path, anew: str, expression: Expression = expression
    ) -> None:
        self._con, self._file, self.anew, self._expression = con, file, anew, expression
        con.text_factory = lambda text: text.decode("utf-8", "replace")

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a short result of SQLite's own."""
        with one_line():
            return self._con.execute(sql, values).fetchall()

    @cached_property
    def tables(self) -> Mapping[str, str]:
        """`table` or `view` by name."""
        found = self.query("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
        return dict(found)

    def columns(self, table: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        return frozenset(
            c for (c,) in self.query("SELECT name FROM pragma_table_info(?)", (table,))
        )

    def rows(self, table: str) -> int:
        return int(self.query(f"SELECT COUNT(*) FROM {identifier(table)}")[0][0])

    def batches(self, table: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The columns of these types in the order of the file.

        Raises:
            TraceCorrupt: a value is of another type, or the file is damaged.
        """
        firsts = ", ".join(
            f"{_FORMS[type_].first} AS {identifier(name)}" for name, type_ in types.items()
        )
        selected = ", ".join(self._expression(name, type_) for name, type_ in types.items())
        sql = f"SELECT {firsts} UNION ALL SELECT {selected} FROM {identifier(table)}"
        uri = file_uri(self._file)
        try:
            with adbc.connect(uri) as con, closing(con.cursor()) as cursor:
                cursor.adbc_statement.set_options(**_BATCH_OPTION)
                cursor.execute(sql)
                skipped = 1
                for batch in cursor.fetch_record_batch():
                    columns = [
                        _typed(batch.column(at), types[name]) for at, name in enumerate(types)
                    ]
                    yield pa.record_batch(columns, names=list(types)).slice(skipped)
                    skipped = 0
        except (adbc.Error, OSError, pa.ArrowException) as error:
            raise self._explained(table, types, error) from None

    def _explained(
        self, table: str, types: Mapping[str, pa.DataType], error: Exception
    ) -> TraceCorrupt:
        """What is wrong with a table that could not be read."""
        for name, type_ in types.items():
            form, column = _FORMS[type_], identifier(name)
            odd = f"FROM {identifier(table)} WHERE typeof({column}) NOT IN ({form.fits}, 'null')"
            place = "_rowid_" if self.tables[table] == "table" else "NULL"
            found = self.query(f"SELECT {column}, {place} {odd} LIMIT 1")
            if found:
                value, row = found[0]
                where = f"table {shown(table)}" + ("" if row is None else f", row {row}")
                return TraceCorrupt(
                    f"{where}: column {shown(name)} has the value {shown(value)[:60]!r}, which is "
                    f"no {form.noun}; {ANEW}"
                )
        first, *_ = str(error).splitlines() or [""]
        return TraceCorrupt(f"damaged SQLite file (table {shown(table)}: {first}); {ANEW}")


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_large_string(wanted):
        if pa.types.is_binary(column.type):
            return column.cast(wanted)
        if column.type != wanted:
            raise pa.ArrowInvalid(f"{column.type} in place of {wanted}")
        return column
    return text(column)


def text(column: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 is replaced."""
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        values = (one and one.decode("utf-8", "replace") for one in column.to_pylist())
        return pa.array(values, pa.large_string())


@contextmanager
def opened_sqlite(
    path: Path, folder: Path, *, anew: str = ANEW, expression: Expression = expression
) -> Iterator[SqliteContainer]:
    """Opens a file without leaving anything beside it; a compressed one is unpacked into a folder.

    Raises:
        TraceCorrupt: the file is damaged or incomplete, or changed meanwhile; the message does not
            name it.
    """
    before = size_and_mtime(path)
    file = settled_file(path, folder)
    with one_line(), closing(sqlite3.connect(file_uri(file), uri=True)) as con:
        yield SqliteContainer(con, file, anew, expression)
    if size_and_mtime(path) != before:
        raise TraceCorrupt("changed while it was read; load it when nothing writes it any more")
