"""A DuckDB database in which a reader turns the tables of a file into those of the contract.

`inputs.sql` of a profiler declares what is read. A column that is NOT NULL has a value in every row
of the file, and one of DEFAULT NULL has to be there if its table has rows; all others, and every
table, may be absent. `rowid` of DuckDB is the number of a row, from 0.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from traceql.errors import LossyLoad, TraceCorrupt
from traceql.readers.redaction import redacted
from traceql.readers.unpacked import REMAKE
from traceql.util.text import identifier

BATCH_ROWS = 122_880
MACROS = Path(__file__).with_name("relations.sql")
_SHARE_OF_MEMORY = 0.4  # for DuckDB; the rest is for the rows of a part
_LEAST_BYTES = 128 << 20
_TYPES = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.large_string()}
_TYPES["BLOB"] = pa.large_binary()


class Container(Protocol):
    """A file, or several, with tables."""

    remake: str  # how to make it again, for messages

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; none if it is absent."""

    def rows(self, table: str) -> int:
        """How many rows a table has, counted without reading their values."""

    def batches(self, table: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The columns of these types in the order of the file; TraceCorrupt for another type."""


class Scratch:
    """The database, and a folder for other files of the reader."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.con, self.folder = con, folder
        con.create_function("redacted", redacted, ["VARCHAR"], "VARCHAR")
        self.run(MACROS)

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
        select: str = "*",
        where: str = "TRUE",
    ) -> None:
        """Adds the rows of a container, in which the table may be called `source`, to a table.

        Args:
            select: what of them is kept, in SQL of DuckDB.
            where: which of them are kept, in SQL of DuckDB.

        Raises:
            TraceCorrupt: a column is missing, or a value is not of its type.
        """
        source = source or table
        present = container.columns(source)
        declared = self.rows(
            "SELECT column_name, data_type, NOT is_nullable, column_default FROM duckdb_columns() "
            "WHERE table_name = ? ORDER BY column_index",
            [table],
        )
        types = {name: _TYPES[type_] for name, type_, *_ in declared if name in present}
        absent = [n for n, _, filled, given in declared if (filled or given) and n not in present]
        if absent and present and container.rows(source):
            listed = " and no ".join(absent)
            raise TraceCorrupt(
                f"table {redacted(source)} has no column {listed}; {container.remake}"
            )
        if absent or not types:
            return
        filled = [name for name, _, filled, _ in declared if filled]
        found, rows = 0, f"(FROM part UNION ALL BY NAME (FROM {identifier(table)} LIMIT 0))"
        self.con.begin()
        for batch in container.batches(source, types):
            for name in filled:
                if batch.column(name).null_count:
                    row = found + batch.column(name).is_null().index(True).as_py() + 1
                    raise TraceCorrupt(
                        f"table {redacted(source)}, row {row}: column {name} has no value; {REMAKE}"
                    )
            found += batch.num_rows
            part = pa.Table.from_batches([batch])  # noqa: F841
            self.con.execute(
                f"INSERT INTO {identifier(table)} BY NAME SELECT {select} FROM {rows} WHERE {where}"
            )
        self.con.commit()
        if found != (counted := container.rows(source)):
            raise LossyLoad(f"{found:,} of {counted:,} rows of table {redacted(source)} were read")

    def declared_tables(self) -> list[str]:
        """The tables that are declared, in that order."""
        names = self.rows("SELECT table_name FROM duckdb_tables() ORDER BY table_oid")
        return [name for (name,) in names]

    def create(self, table: str, batches: Iterable[pa.Table]) -> None:
        """Makes a table of rows; the first batch, which may be empty, has its columns."""
        for number, rows in enumerate(batches):
            if not number:
                first = rows.schema.empty_table()  # noqa: F841
                self.con.execute(f"CREATE TABLE {identifier(table)} AS FROM first")
            self.insert(table, rows)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Adds rows with columns of the same names."""
        self.con.execute(f"INSERT INTO {identifier(table)} BY NAME FROM rows")


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
