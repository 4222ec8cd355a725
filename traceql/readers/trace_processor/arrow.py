"""Query results of any trace processor as Arrow tables."""

from typing import Protocol

import pyarrow as pa

from traceql.errors import EngineError
from traceql.readers.trace_processor.cells import Cell, Chunk, chunks, column_type
from traceql.readers.trace_processor.messages import last_line
from traceql.util.protobuf.wire import delimited_fields

# Field numbers of QueryResult.
_COLUMN_NAME = 1
_ERROR = 2
_BATCH = 3


class Engine(Protocol):
    """A trace processor that answers queries."""

    def query_bytes(self, query: str, /) -> bytes:
        """A serialised QueryResult. If the query is wrong, its field `error` says so."""
        ...


def arrow_table(tp: Engine, sql: str, *, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of `sql`, with int64, float64, string or binary columns that may hold NULLs.

    A column that holds only NULLs has the type null, and so has every column of an empty result.

    Args:
        schema: columns and types that the table gets in any case.

    Raises:
        EngineError: the engine rejects `sql`, a column mixes text with numbers, or the columns do
            not fit `schema`.
    """
    names, batches = [], []
    for number, content in delimited_fields(memoryview(tp.query_bytes(sql))):
        if number == _ERROR and content:
            reason = last_line(str(content, "utf-8", "replace"))
            raise EngineError(f"the trace processor rejected the query: {reason}")
        if number == _COLUMN_NAME:
            names.append(str(content, "utf-8"))
        elif number == _BATCH:
            batches.append(content)
    table = _table(names, list(chunks(batches, len(names))))
    return table if schema is None else _cast(table, schema)


def _table(names: list[str], parts: list[Chunk]) -> pa.Table:
    columns = [_column(name, index, parts) for index, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names)


def _column(name: str, index: int, parts: list[Chunk]) -> pa.ChunkedArray:
    kinds = {kind for kind in Cell for part in parts if part.present[kind][index]}
    type_ = column_type(name, kinds)
    return pa.chunked_array([part.column(index, type_) for part in parts], type_)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    try:
        return table.cast(schema)
    except (ValueError, pa.ArrowException) as error:
        raise EngineError(f"the query's columns do not fit the schema: {error}") from error
