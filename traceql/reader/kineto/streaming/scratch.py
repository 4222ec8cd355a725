"""Tables on disk, in parts, and their rows in another order, by DuckDB in bounded memory."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

_ROWS = 100_000  # of a sorted batch


class Scratch:
    """The tables of a file while it is read.

    Args:
        folder: where to write them; it exists and is empty.
        memory_bytes: for sorting; what does not fit goes into the folder too.
    """

    def __init__(self, folder: Path, *, memory_bytes: int) -> None:
        self._folder = folder
        self._parts: dict[str, int] = {}
        self._con = duckdb.connect(
            config={
                "memory_limit": f"{memory_bytes}B",
                "temp_directory": str(folder / "sorting"),
                "preserve_insertion_order": "false",
            }
        )

    def close(self) -> None:
        self._con.close()

    def add(self, name: str, rows: pa.Table) -> None:
        """Appends rows to a table, as its next part."""
        number = self._parts.get(name, 0)
        with pa.ipc.new_file(self._path(name, number), rows.schema) as sink:
            sink.write_table(rows)
        self._parts[name] = number + 1

    def part(self, name: str, number: int) -> pa.Table:
        """A part of a table, mapped from disk; parts have numbers from 0."""
        with pa.memory_map(str(self._path(name, number))) as source:
            return pa.ipc.open_file(source).read_all()

    def parts(self, name: str) -> Iterator[pa.Table]:
        """The parts of a table in the order in which they were added."""
        for number in range(self._parts.get(name, 0)):
            yield self.part(name, number)

    def ask(
        self, sql: str, schemas: Mapping[str, pa.Schema], **others: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        """The rows that a SELECT gives, in its order.

        Args:
            schemas: the tables in the SELECT, each named once, and their columns.
            others: small tables that are in memory.
        """
        for name, schema in schemas.items():
            reader = pa.RecordBatchReader.from_batches(schema, self._batches(name, schema))
            self._con.register(name, reader)
        for name, table in others.items():
            self._con.register(name, table)
        yield from self._con.sql(sql).to_arrow_reader(_ROWS)
        for name in (*schemas, *others):
            self._con.unregister(name)

    def _batches(self, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in self.parts(name):
            yield from part.select(schema.names).to_batches()

    def _path(self, name: str, number: int) -> Path:
        return self._folder / f"{name}.{number:06}.arrow"
