"""The rows of a statement, a batch at a time, for results larger than memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb

from traceql.errors import QueryInvalid
from traceql.result.text_table.names import distinct_names

if TYPE_CHECKING:
    import pyarrow as pa


class RowStream:
    """The batches of a result, which can be read once; DuckDB computes them as they are read.

    Raises:
        QueryInvalid: on iteration, if the statement fails after its first rows.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, batches: "pa.RecordBatchReader") -> None:
        import pyarrow as pa

        self._con = con  # closed with this object
        self._batches = batches
        names = distinct_names(batches.schema.names)
        self.schema: pa.Schema = pa.schema(
            field.with_name(name) for field, name in zip(batches.schema, names, strict=True)
        )

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        try:
            for batch in self._batches:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # OSError comes from Arrow
            raise QueryInvalid(without_statement(error)) from None


def without_statement(error: Exception) -> str:
    """DuckDB's message in one line, without the statement that it quotes."""
    return str(error).split("\n\nLINE ")[0].replace("\n", " ").strip()
