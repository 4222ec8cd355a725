"""Moves rows between DuckDB and Arrow or NumPy; large results are spilled to disk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Columns = Mapping[str, npt.NDArray[Any]]

_IN_MEMORY_BYTES = 64 << 20  # smaller results stay in memory
_BATCH_ROWS = 100_000
_FILES = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL ORDER BY database_oid"


def create_table(con: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Creates a table with these rows, or replaces it."""
    con.register("incoming", rows)  # takes precedence over a user's table with this name
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
    con.unregister("incoming")


def columns_of(relation: duckdb.DuckDBPyRelation) -> Columns:
    """All rows of a relation, as one array per column."""
    table = relation.to_arrow_table()
    return {name: table[name].to_numpy() for name in table.column_names}


def rows_where(columns: Columns, kept: npt.NDArray[np.bool_]) -> Columns:
    """The rows for which `kept` is true, as one array per column."""
    return {name: column[kept] for name, column in columns.items()}


def in_order(columns: Columns, *by: str) -> Columns:
    """The rows sorted by these columns, the first one first; fast if they are nearly sorted."""
    order = np.lexsort([columns[name] for name in reversed(by)])
    return {name: column[order] for name, column in columns.items()}


@contextmanager
def spilled(con: duckdb.DuckDBPyConnection, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """All parts as one table, complete before the block begins, so that the block can write.

    Args:
        parts: tables of one schema; at least one, which may be empty.
    """
    folder = _database_folder(con)  # first: the parts may come from an open query
    first = _take_small(parts)
    after = next(parts, None)
    if after is None:
        yield pa.concat_tables(first)
        return
    with TemporaryDirectory(dir=folder) as own:
        path = str(Path(own) / "rows.arrow")
        with pa.ipc.new_file(path, after.schema) as sink:
            for part in chain(first, [after], parts):
                sink.write_table(part)
        first.clear()
        with pa.memory_map(path) as source:
            yield pa.ipc.open_file(source).read_all()


def query_tables(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.Table]:
    """All rows of a query, in tables that are small enough for memory."""
    reader = con.sql(sql).to_arrow_reader(_BATCH_ROWS)
    yield reader.schema.empty_table()
    for batch in reader:
        yield pa.Table.from_batches([batch])


def mapped_columns(con: duckdb.DuckDBPyConnection, sql: str, params: object = None) -> Columns:
    """All rows of a query of numbers, as one array per column; many rows are mapped from disk.

    Raises OSError if the disk is full.
    """
    folder = _database_folder(con)
    reader = con.sql(sql, params=params).to_arrow_reader(_BATCH_ROWS)
    batches = (pa.Table.from_batches([batch]) for batch in reader)
    first = _take_small(batches)
    after = next(batches, None)
    if after is None:
        table = pa.concat_tables([reader.schema.empty_table(), *first])
        return {name: table[name].to_numpy() for name in table.column_names}
    files = [TemporaryFile(dir=folder) for _ in reader.schema]  # noqa: SIM115 (the map keeps it)
    for part in chain(first, [after], batches):
        for file, column in zip(files, part.columns, strict=True):
            file.write(column.to_numpy().tobytes())
    found = {}
    for file, field in zip(files, reader.schema, strict=True):
        file.flush()
        found[field.name] = np.memmap(file, field.type.to_pandas_dtype(), mode="r")
    return found


def _take_small(parts: Iterator[pa.Table]) -> list[pa.Table]:
    """The first parts, as many as fit in memory together."""
    found: list[pa.Table] = []
    size = 0
    while size <= _IN_MEMORY_BYTES and (part := next(parts, None)) is not None:
        found.append(part)
        size += part.nbytes
    return found


def _database_folder(con: duckdb.DuckDBPyConnection) -> Path | None:
    """The folder of the database; None for the default one if it is in memory."""
    found = con.execute(_FILES).fetchall()
    return Path(found[0][0]).parent if found else None
