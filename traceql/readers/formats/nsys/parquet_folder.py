"""The other form of an export: a folder with a Parquet file for each table.

The reader works on SQLite, so the tables are written into one file first. Columns have the same
names in both forms.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from traceql.errors import TraceCorrupt, reason
from traceql.readers.formats.nsys.parquet_layout import SUFFIX, TEXTS
from traceql.readers.unpacked import ANEW
from traceql.util.sql_text import identifier

_BATCH_ROWS = 10_000
_NOT_NEEDED = ("ENUM_", "TARGET_INFO_SYSTEM_ENV")  # words for numbers, and the environment
_BLOBS = ("binaryData",)  # text by their type, but any bytes
_SIGNED = 2**63


def write_sqlite(folder: Path, target: Path) -> None:
    """Writes the tables of a folder into an SQLite file.

    Raises:
        TraceCorrupt: a file is damaged, or that of the texts is missing; the message names it.
    """
    if not (folder / f"{TEXTS}{SUFFIX}").is_file():
        raise TraceCorrupt(
            f"{TEXTS}{SUFFIX} is missing in its folder, the table with the names of all events; "
            "copy it there, or make the folder again with nsys export --type parquetdir"
        )
    with closing(sqlite3.connect(target)) as con:
        con.execute("PRAGMA journal_mode = OFF")
        con.execute("PRAGMA synchronous = OFF")
        for file in sorted(folder.glob(f"*{SUFFIX}")):
            if not file.name.startswith(_NOT_NEEDED):
                try:
                    _write_table(con, file)
                except (pa.ArrowException, OSError, sqlite3.Error) as error:
                    raise TraceCorrupt(
                        f"{file.name}: damaged Parquet file ({reason(error)}); {ANEW}"
                    ) from None
        con.commit()


def _write_table(con: sqlite3.Connection, path: Path) -> None:
    table = path.name.removesuffix(SUFFIX)
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        if not schema.names:
            return
        names = ", ".join(identifier(name) for name in schema.names)
        values = ", ".join(_placeholder(field) for field in schema)
        con.execute(f"CREATE TABLE {identifier(table)} ({names})")
        for batch in file.iter_batches(_BATCH_ROWS):
            rows = zip(*(_values(column) for column in batch.columns), strict=True)
            con.executemany(f"INSERT INTO {identifier(table)} VALUES ({values})", rows)
        if table == TEXTS and "id" in schema.names:  # as nsys itself has it in SQLite
            con.execute(f"CREATE INDEX text_by_id ON {identifier(table)} (id)")


def _placeholder(field: pa.Field) -> str:
    """Texts are given as bytes, because not all of them are UTF-8."""
    is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    return "CAST(? AS TEXT)" if is_text and field.name not in _BLOBS else "?"


def _values(column: pa.Array) -> Iterable[Any]:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_uint64(column.type):
        return _signed(column.to_pylist())
    return column.to_pylist()  # type: ignore[no-any-return]


def _signed(values: Iterable[int | None]) -> Iterator[int | None]:
    """SQLite has signed integers of 64 bits only, and so has an export to it."""
    for value in values:
        yield value - 2 * _SIGNED if value is not None and value >= _SIGNED else value
