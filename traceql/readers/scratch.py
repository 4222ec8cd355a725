"""A DuckDB database in which a reader turns the tables of a file into those of the contract.

`inputs.sql` of a profiler declares what is read. A column with DEFAULT NULL may be absent from the
file; all others have to be there if the table has rows. A column that is NOT NULL has a value in
every row. A table that is absent is empty. `rowid` of DuckDB is the number of a row, from 0.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

import duckdb
import pyarrow as pa

from traceql.errors import LossyLoad, TraceCorrupt
from traceql.readers.shown import shown
from traceql.readers.unpacked import ANEW
from traceql.util.text import identifier

BATCH_ROWS = 122_880
_MACROS = Path(__file__).with_name("relations.sql")
_SHARE_OF_MEMORY = 0.4  # for DuckDB; the rest is for the rows of a part
_LEAST_BYTES = 128 << 20
_TYPES = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.large_string(),
    "BLOB": pa.large_binary(),
}


class Container(Protocol):
    """A file, or several, with tables.

    Attributes:
        anew: how to make it again, for messages.
    """

    anew: str

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; none if it is absent."""

    def rows(self, table: str) -> int:
        """How many rows a table has, counted without reading their values."""

    def batches(self, table: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The columns of these types in the order of the file.

        Raises:
            TraceCorrupt: a value is of another type; the message names table, column and row.
        """


class _Column(NamedTuple):
    type: pa.DataType
    has_value: bool
    may_be_absent: bool


class Scratch:
    """The database, and a folder for other files of the reader."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.con, self.folder = con, folder
        con.create_function("shown", shown, ["VARCHAR"], "VARCHAR")
        self.run(_MACROS)

    def run(self, script: Path) -> None:
        """Executes a file of SQL."""
        self.con.execute(script.read_text(encoding="utf-8"))

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a short result."""
        return self.con.execute(sql, values).fetchall()

    def arrow(self, sql: str) -> pa.Table:
        """A result as columns."""
        return self.con.sql(sql).to_arrow_table()

    def fill(
        self,
        container: Container,
        table: str,
        *,
        source: str | None = None,
        constants: Mapping[str, Any] | None = None,
        select: str = "*",
        where: str = "TRUE",
    ) -> None:
        """Adds the rows of a container to a table that is declared.

        Args:
            source: the name of the table in the container, if it is another.
            constants: values of columns that are the same for all these rows.
            select: what of them is kept, in SQL of DuckDB.
            where: which of them are kept, in SQL of DuckDB.

        Raises:
            TraceCorrupt: a column is missing, or a value is not of its type.
        """
        source, constants = source or table, constants or {}
        present = container.columns(source)
        if not present:
            return
        declared = {n: c for n, c in self._declared(table).items() if n not in constants}
        absent = [n for n, c in declared.items() if n not in present and not c.may_be_absent]
        read = {n: c for n, c in declared.items() if n in present}
        if absent and container.rows(source):
            listed = " and no ".join(absent)
            raise TraceCorrupt(f"table {shown(source)} has no column {listed}; {container.anew}")
        if absent or not read:
            return
        found = 0
        batches = container.batches(source, {name: column.type for name, column in read.items()})
        self.con.begin()
        for batch in batches:
            _require_values(source, batch, read, found)
            found += batch.num_rows
            rows = pa.Table.from_batches([batch])
            for name in declared.keys() - read.keys():
                rows = rows.append_column(name, pa.nulls(len(rows), declared[name].type))
            for name, value in constants.items():
                rows = rows.append_column(name, pa.repeat(value, len(rows)))
            self._insert(table, rows, select, where)
        self.con.commit()
        if found != (rows := container.rows(source)):
            raise LossyLoad(f"{found:,} of {rows:,} rows of table {shown(source)} were read")

    def declared_tables(self) -> list[str]:
        """The tables that are declared, in that order."""
        return [
            name
            for (name,) in self.rows("SELECT table_name FROM duckdb_tables() ORDER BY table_oid")
        ]

    def create(self, table: str, batches: Iterable[pa.Table]) -> None:
        """Makes a table of rows; the first batch, which may be empty, has its columns."""
        for number, rows in enumerate(batches):
            if not number:
                first = rows.schema.empty_table()  # noqa: F841
                self.con.execute(f"CREATE TABLE {identifier(table)} AS FROM first")
            self.insert(table, rows)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Adds rows with columns of the same names."""
        self._insert(table, rows, "*", "TRUE")

    def _insert(self, table: str, rows: pa.Table, select: str, where: str) -> None:
        self.con.execute(
            f"INSERT INTO {identifier(table)} BY NAME SELECT {select} FROM rows WHERE {where}"
        )

    def _declared(self, table: str) -> Mapping[str, _Column]:
        found = self.rows(
            """
            SELECT column_name, data_type, NOT is_nullable, column_default IS NOT NULL
            FROM duckdb_columns()
            WHERE table_name = ?
            ORDER BY column_index
            """,
            [table],
        )
        return {name: _Column(_TYPES[type_], *rest) for name, type_, *rest in found}


def _require_values(
    table: str, batch: pa.RecordBatch, columns: Mapping[str, _Column], rows_before: int
) -> None:
    for name, column in columns.items():
        if column.has_value and batch.column(name).null_count:
            row = rows_before + batch.column(name).is_null().index(True).as_py() + 1
            raise TraceCorrupt(
                f"table {shown(table)}, row {row}: column {name} has no value; {ANEW}"
            )


@contextmanager
def scratch_database(folder: Path | None, memory_bytes: int, threads: int) -> Iterator[Scratch]:
    """A database in a folder of its own, which is removed after the block.

    Args:
        folder: where to make it; None for the system's temporary files.
    """
    with TemporaryDirectory(prefix="traceql-", dir=folder) as own:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{max(_LEAST_BYTES, int(memory_bytes * _SHARE_OF_MEMORY)) >> 20}MiB",
            "threads": threads,
            "temp_directory": f"{own}/temporary",
            "arrow_large_buffer_size": True,
        }
        with duckdb.connect(f"{own}/scratch.duckdb", config=config) as con:
            yield Scratch(con, Path(own))
