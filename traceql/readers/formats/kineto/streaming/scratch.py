"""Temporary tables, in memory or on disk, whose rows DuckDB sorts."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

_ROWS = 100_000  # of a sorted batch
_SHARE_OF_TABLES = 0.5  # of the memory; the rest is for columns while they are sorted
Change = Callable[[pa.Table], pa.Table]


class Scratch:
    """The tables of a file while it is read.

    Tables that are sorted later stay in memory if they fit into half of it; others are on disk.

    Args:
        folder: an empty folder for the tables.
        memory_bytes: for tables and for sorting; the rest goes into the folder.

    Attributes:
        is_in_memory: whether the tables that are sorted later are in memory.
    """

    def __init__(self, folder: Path, *, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._parts: defaultdict[str, list[tuple[pa.Table | Path, Change | None]]]
        self._parts = defaultdict(list)
        self._kept_bytes = 0
        self.is_in_memory = True

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

    def clear(self) -> None:
        """Removes all rows."""
        self._parts.clear()
        self._kept_bytes = 0

    def folder_for(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files of each table; tables in memory are written first."""
        self._spill()
        return {name: [Path(part) for part, _ in parts] for name, parts in self._parts.items()}

    def append(self, name: str, rows: pa.Table) -> None:
        """Adds a part to a table on disk, which is read in this order."""
        parts = self._parts[name]
        parts.append((self._written(name, len(parts), rows), None))

    def add(self, name: str, rows: pa.Table) -> None:
        """Adds a part to a table that is sorted later."""
        self._kept_bytes += rows.nbytes
        if self.is_in_memory and self._kept_bytes > self._memory_bytes * _SHARE_OF_TABLES:
            self._spill()
        if not self.is_in_memory:
            self.append(name, rows)
            return
        self._parts[name].append((rows, None))

    def _spill(self) -> None:
        """Writes all tables to disk, and all later parts too."""
        self.is_in_memory = False
        for name, parts in self._parts.items():
            for number, (part, change) in enumerate(parts):
                if isinstance(part, pa.Table):
                    parts[number] = self._written(name, number, part), change

    def _written(self, name: str, number: int, rows: pa.Table) -> Path:
        path = self._folder / f"{name}.{number:06}.arrow"
        with pa.ipc.new_file(path, rows.schema) as sink:
            sink.write_table(rows)
        return path

    def adopt(self, files: Mapping[str, list[Path]], changes: Mapping[str, Change]) -> None:
        """Appends files of another process to the tables.

        Args:
            changes: a function for the rows of a table, applied when they are read.
        """
        self._spill()
        for name, paths in files.items():
            self._parts[name] += [(path, changes.get(name)) for path in paths]

    def parts(self, name: str) -> Iterator[pa.Table]:
        """The parts of a table in order, mapped if on disk."""
        for part, change in self._parts[name]:
            yield _opened(part, change)

    def take(self, name: str) -> Iterator[pa.Table]:
        """The same parts; each is removed."""
        parts = self._parts.pop(name, [])
        while parts:
            part, change = parts.pop(0)
            rows = _opened(part, change)
            if isinstance(part, Path):
                part.unlink()
            del part
            yield rows
            del rows

    def query(
        self, sql: str, schemas: Mapping[str, pa.Schema], *, kept: str = "", **others: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT that sorts them.

        Args:
            schemas: the tables of the SELECT and their columns.
            kept: the table that is not removed.
            others: small tables in memory.
        """
        for name, schema in schemas.items():
            parts = self.parts(name) if name == kept else self.take(name)
            reader = pa.RecordBatchReader.from_batches(schema, _batches(parts, schema))
            self._con.register(name, reader)
        for name, table in others.items():
            self._con.register(name, table)
        yield from self._con.sql(sql).to_arrow_reader(_ROWS)
        for name in (*schemas, *others):
            self._con.unregister(name)


def _batches(parts: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from part.select(schema.names).to_batches()


def _opened(part: pa.Table | Path, change: Change | None) -> pa.Table:
    rows = part
    if isinstance(part, Path):
        with pa.memory_map(str(part)) as source:
            rows = pa.ipc.open_file(source).read_all()
    return change(rows) if change else rows
