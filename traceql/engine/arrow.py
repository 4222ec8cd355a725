"""Results of PerfettoSQL queries as Arrow tables, from the bundled and from a native engine."""

import pyarrow as pa

from traceql.engine.backend import BundledBackend, TraceProcessor
from traceql.engine.cells import Cell, Chunk, chunks, column_type
from traceql.engine.messages import last_line
from traceql.engine.wire import delimited_fields
from traceql.errors import EngineError

# Field numbers of QueryResult.
_COLUMN_NAME = 1
_ERROR = 2
_BATCH = 3


def arrow_table(tp: TraceProcessor, sql: str, *, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of `sql`, with columns of type int64, float64, string or binary.

    A column in which every value is NULL has the type null, as has every column of an empty
    result; give `schema` to get its names and types in any case.

    Raises:
        EngineError: the engine rejects `sql`, a column mixes text with numbers, or the columns do
            not fit `schema`.
    """
    names, batches = [], []
    for number, content in delimited_fields(memoryview(_result_bytes(tp, sql))):
        if number == _ERROR and content:
            reason = last_line(str(content, "utf-8", "replace"))
            raise EngineError(f"the trace processor rejected the query: {reason}")
        if number == _COLUMN_NAME:
            names.append(str(content, "utf-8"))
        elif number == _BATCH:
            batches.append(content)
    table = _table(names, list(chunks(batches, len(names))))
    return table if schema is None else _cast(table, schema)


def _result_bytes(tp: TraceProcessor, sql: str) -> bytes:
    """A serialised QueryResult.

    It is decoded in bulk by this package, because protobuf's objects would be read cell by cell.
    """
    backend = tp._backend
    if isinstance(backend, BundledBackend):
        return backend.query_bytes(sql)
    return bytes(backend.execute_query(sql).SerializeToString())


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
