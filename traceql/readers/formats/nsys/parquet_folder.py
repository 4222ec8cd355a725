"""The other form of an export: a folder with a Parquet file for each table."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from traceql.errors import TraceCorrupt, reason
from traceql.readers.formats.nsys import PARQUET, TEXTS
from traceql.readers.scratch import BATCH_ROWS
from traceql.readers.sqlite_container import text
from traceql.readers.unpacked import REMAKE


class ParquetFolder:
    """The tables of a folder. Columns have the same names as in SQLite."""

    remake = "make the folder again with nsys export --type parquetdir"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tables = {file.stem: "table" for file in folder.glob(f"*{PARQUET}")}
        if TEXTS not in self.tables:
            raise TraceCorrupt(
                f"{TEXTS}{PARQUET} is missing in its folder, the table with the names of all "
                f"events; copy it there, or {self.remake}"
            )

    def columns(self, table: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        with self._opened(table) as file:
            return frozenset(file.schema_arrow.names)

    def rows(self, table: str) -> int:
        with self._opened(table) as file:
            return int(file.metadata.num_rows)

    def batches(self, table: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        with self._opened(table) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=[*types]):
                columns = [_typed(name, batch.column(name), kind) for name, kind in types.items()]
                yield pa.record_batch(columns, names=[*types])

    @contextmanager
    def _opened(self, table: str) -> Iterator[pq.ParquetFile]:
        path = self._folder / f"{table}{PARQUET}"
        try:
            with pq.ParquetFile(path) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            raise TraceCorrupt(
                f"{path.name}: damaged Parquet file ({reason(error)}); {REMAKE}"
            ) from None


def _typed(name: str, column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of the type; texts may be any bytes, and SQLite has signed integers alone."""
    if column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    if pa.types.is_uint64(column.type) and wanted == pa.int64():
        return column.view(wanted)
    try:
        if wanted == pa.large_string():
            return text(column.cast(pa.large_binary()))
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise pa.ArrowInvalid(f"column {name}: {error}") from None
