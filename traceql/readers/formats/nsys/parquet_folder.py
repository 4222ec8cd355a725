"""The other form of an export: a folder with a Parquet file for each table."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from traceql.errors import TraceCorrupt, reason
from traceql.readers.formats.nsys.parquet_layout import SUFFIX, TEXTS
from traceql.readers.scratch import BATCH_ROWS
from traceql.readers.sqlite_container import text
from traceql.readers.unpacked import ANEW


class ParquetFolder:
    """The tables of a folder. Columns have the same names as in SQLite."""

    anew = "make the folder again with nsys export --type parquetdir"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tables = {file.stem: "table" for file in folder.glob(f"*{SUFFIX}")}
        if TEXTS not in self.tables:
            raise TraceCorrupt(
                f"{TEXTS}{SUFFIX} is missing in its folder, the table with the names of all "
                f"events; copy it there, or {self.anew}"
            )

    def columns(self, table: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        with _one_line(self._file(table)), pq.ParquetFile(self._file(table)) as file:
            return frozenset(file.schema_arrow.names)

    def rows(self, table: str) -> int:
        with _one_line(self._file(table)), pq.ParquetFile(self._file(table)) as file:
            return int(file.metadata.num_rows)

    def batches(self, table: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        names = list(types)
        with _one_line(self._file(table)), pq.ParquetFile(self._file(table)) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=names):
                columns = [_typed(name, batch.column(name), types[name]) for name in names]
                yield pa.record_batch(columns, names=names)

    def _file(self, table: str) -> Path:
        return self._folder / f"{table}{SUFFIX}"


@contextmanager
def _one_line(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise TraceCorrupt(f"{file.name}: damaged Parquet file ({reason(error)}); {ANEW}") from None


def _typed(name: str, column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of the type; texts may be any bytes, and SQLite has signed integers alone."""
    if column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    if pa.types.is_uint64(column.type) and wanted == pa.int64():
        return column.view(wanted)
    try:
        if wanted in (pa.large_string(), pa.large_binary()):
            column = column.cast(pa.large_binary())
        return text(column) if wanted == pa.large_string() else column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise pa.ArrowInvalid(f"column {name}: {error}") from None
