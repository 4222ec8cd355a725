"""Writes batches of rows as one Parquet file, with as much memory as a batch takes."""

from collections.abc import Iterable
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from traceql.result.text_table.integers import fits_int64, wide_columns, with_int64


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    """A row group per batch; integers of 128 bits become int64 if all of a column fit."""
    narrow = wide_columns(schema)
    if not narrow:
        _write(schema, batches, file)
        return
    with TemporaryFile() as spool:  # the last row may decide the type of the first
        with pa.ipc.new_stream(spool, schema) as kept:
            for batch in batches:
                narrow = [name for name in narrow if fits_int64(batch.column(name))]
                kept.write_batch(batch)
        spool.seek(0)
        with pa.ipc.open_stream(spool) as kept:
            narrowed = with_int64(schema, narrow)
            _write(narrowed, (batch.cast(narrowed) for batch in kept), file)


def _write(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
