"""Tables on disk, in parts, and their rows in another order, by DuckDB in bounded memory."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

_ROWS = 100_000  # of a sorted batch
Change = Callable[[pa.Table], pa.Table]


class Scratch:
    """The tables of a file while it is read.

    Args:
        folder: where to write them; it exists and is empty.
        memory_bytes: for sorting; what does not fit goes into the folder too.
    """

    def __init__(self, folder: Path, *, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._parts: defaultdict[str, list[tuple[Path, Change | None]]] = defaultdict(list)

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(
            config={
                "memory_limit": f"{self._memory_bytes}B",
                "temp_directory": str(self._folder / "sorting"),
                "preserve_insertion_order": "false",
            }
        )

    def close(self) -> None:
        if "_con" in self.__dict__:
            self._con.close()

    def folder_for(self, name: str) -> Path:
        """A new folder in that of the tables."""
        folder = self._folder / name
        folder.mkdir()
        return folder

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files of each table."""
        return {name: [path for path, _ in parts] for name, parts in self._parts.items()}

    def add(self, name: str, rows: pa.Table) -> None:
        """Appends rows to a table, as its next part."""
        path = self._folder / f"{name}.{len(self._parts[name]):06}.arrow"
        with pa.ipc.new_file(path, rows.schema) as sink:
            sink.write_table(rows)
        self._parts[name].append((path, None))

    def adopt(self, files: Mapping[str, list[Path]], changes: Mapping[str, Change]) -> None:
        """Appends files of another process to the tables.

        Args:
            changes: what becomes of the rows of a table when they are read; nothing if absent.
        """
        for name, paths in files.items():
            self._parts[name] += [(path, changes.get(name)) for path in paths]

    def parts(self, name: str) -> Iterator[pa.Table]:
        """The parts of a table in the order in which they were added, mapped from disk."""
        for path, change in self._parts[name]:
            yield _mapped(path, change)

    def take(self, name: str) -> Iterator[pa.Table]:
        """The same parts, which are removed from disk."""
        for path, change in self._parts.pop(name, []):
            rows = _mapped(path, change)
            path.unlink()
            yield rows

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


def _mapped(path: Path, change: Change | None) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        rows = pa.ipc.open_file(source).read_all()
    return change(rows) if change else rows
