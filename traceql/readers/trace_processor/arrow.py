"""Query results of any trace processor as Arrow tables."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.errors import EngineError
from traceql.util.protobuf_wire import delimited_fields, packed_varints


def last_line(text: str) -> str:
    """The last non-empty line: Perfetto prints the reason after the traceback."""
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no reason given")


CHUNK_BYTES = 2 << 20  # small enough for the CPU's cache


class Cell(IntEnum):
    """The type of a cell, numbered as in CellsBatch.CellType."""

    NULL = 1
    VARINT = 2
    FLOAT64 = 3
    STRING = 4
    BLOB = 5


# The fields of a CellsBatch with the values of each kind; that of Cell.NULL has the kinds of cells.
_FIELDS = {1: Cell.NULL, 2: Cell.VARINT, 3: Cell.FLOAT64, 4: Cell.BLOB, 5: Cell.STRING}
_TYPES = {
    frozenset[Cell](): pa.null(),
    frozenset({Cell.VARINT}): pa.int64(),
    frozenset({Cell.FLOAT64}): pa.float64(),
    frozenset({Cell.VARINT, Cell.FLOAT64}): pa.float64(),
    frozenset({Cell.STRING}): pa.string(),
    frozenset({Cell.BLOB}): pa.binary(),
}


@dataclass
class Chunk:
    """Rows of consecutive batches: the kind of each cell, and the values of each kind."""

    width: int
    parts: dict[Cell, list[memoryview]] = field(default_factory=lambda: {c: [] for c in Cell})
    size_bytes: int = 0

    def add(self, batch: memoryview) -> None:
        """Appends the rows of a serialised CellsBatch."""
        self.size_bytes += len(batch)
        for number, content in delimited_fields(batch):
            if number in _FIELDS:
                self.parts[_FIELDS[number]].append(content)

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """The kind of each cell, as a matrix of rows and columns."""
        return np.frombuffer(b"".join(self.parts[Cell.NULL]), np.uint8).reshape(-1, self.width)

    @cached_property
    def present(self) -> dict[Cell, npt.NDArray[np.bool_]]:
        """For each kind, whether each column has a cell of that kind."""
        if len(self.kinds) and (self.kinds == self.kinds[0]).all():
            return {kind: self.kinds[0] == kind for kind in Cell}
        columns = np.ascontiguousarray(self.kinds.T)
        return {kind: (columns == kind).any(axis=1) for kind in Cell}

    def column(self, index: int, type_: pa.DataType) -> pa.Array:
        """One column, converted to its type in the whole result."""
        if pa.types.is_null(type_):
            return pa.nulls(len(self.kinds))
        null = self.kinds[:, index] == Cell.NULL if self.present[Cell.NULL][index] else None
        if pa.types.is_integer(type_):
            return pa.array(np.ascontiguousarray(self._integers[:, index]), mask=null)
        if pa.types.is_floating(type_):
            return pa.array(self._numbers(index), mask=null)
        if pa.types.is_string(type_):
            return self._taken(self._strings, Cell.STRING, index, null)
        return self._taken(self._blobs, Cell.BLOB, index, null)

    def _numbers(self, index: int) -> npt.NDArray[np.float64]:
        if not self.present[Cell.VARINT][index]:
            return np.ascontiguousarray(self._floats[:, index])
        integral = self.kinds[:, index] == Cell.VARINT
        return np.where(integral, self._integers[:, index], self._floats[:, index])

    def _taken(
        self, values: pa.Array, kind: Cell, index: int, null: npt.NDArray[np.bool_] | None
    ) -> pa.Array:
        if len(values) == len(self.kinds) and null is None:
            return values
        order = self._spread(np.arange(len(values)), kind)[:, index]
        return values.take(pa.array(np.ascontiguousarray(order), mask=null))

    @cached_property
    def _integers(self) -> npt.NDArray[np.int64]:
        return self._spread(packed_varints(b"".join(self.parts[Cell.VARINT])), Cell.VARINT)

    @cached_property
    def _floats(self) -> npt.NDArray[np.float64]:
        packed = b"".join(self.parts[Cell.FLOAT64])
        return self._spread(np.frombuffer(packed, np.float64), Cell.FLOAT64)

    @cached_property
    def _strings(self) -> pa.Array:
        return _string_array(b"".join(self.parts[Cell.STRING]))

    @cached_property
    def _blobs(self) -> pa.Array:
        return pa.array([bytes(blob) for blob in self.parts[Cell.BLOB]], pa.binary())

    def _spread(self, values: npt.NDArray[Any], kind: Cell) -> npt.NDArray[Any]:
        """A matrix with the values of one kind in their cells, and 0 in all other cells."""
        if len(values) == self.kinds.size:
            return values.reshape(self.kinds.shape)
        grid = np.zeros(self.kinds.shape, values.dtype)
        grid[self.kinds == kind] = values
        return grid


def chunks(batches: Iterable[memoryview], width: int) -> Iterator[Chunk]:
    """Groups serialised CellsBatches of `width` columns into chunks of about CHUNK_BYTES."""
    chunk = Chunk(width)
    for batch in batches:
        chunk.add(batch)
        if chunk.size_bytes >= CHUNK_BYTES:
            yield chunk
            chunk = Chunk(width)
    if chunk.size_bytes:
        yield chunk


def column_type(name: str, kinds: Iterable[Cell]) -> pa.DataType:
    """The Arrow type of a column with these kinds of cells; integers and floats become float64."""
    held = frozenset(kinds) - {Cell.NULL}
    if held not in _TYPES:
        mixed = " and ".join(kind.name.lower() for kind in sorted(held))
        raise EngineError(f"column {name!r} mixes {mixed} values; CAST it in the query")
    return _TYPES[held]


def _string_array(terminated: bytes) -> pa.Array:
    """Splits NUL-terminated strings; bytes that are not UTF-8 become U+FFFD."""
    if not terminated.isascii():
        terminated = terminated.decode("utf-8", "replace").encode()
    ends = np.flatnonzero(np.frombuffer(terminated, np.uint8) == 0)
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    text = terminated.translate(None, b"\0")
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text))


_COLUMN_NAME, _ERROR, _BATCH = 1, 2, 3  # field numbers of QueryResult


class Engine(Protocol):
    """A trace processor that runs queries."""

    def query_bytes(self, query: str, /) -> bytes:
        """A serialised QueryResult; its field `error` reports an error in the query."""
        ...


def arrow_table(tp: Engine, sql: str, *, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of `sql`, with int64, float64, string or binary columns that may hold NULLs.

    A column of only NULLs has the type null, as has every column of an empty result.

    Args:
        schema: the columns and types of the table.

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
    parts = list(chunks(batches, len(names)))
    columns = [_column(name, index, parts) for index, name in enumerate(names)]
    table = pa.Table.from_arrays(columns, names)
    if schema is None:
        return table
    try:
        return table.cast(schema)
    except (ValueError, pa.ArrowException) as error:
        raise EngineError(f"the query's columns do not fit the schema: {error}") from error


def _column(name: str, index: int, parts: list[Chunk]) -> pa.ChunkedArray:
    kinds = {kind for kind in Cell for part in parts if part.present[kind][index]}
    type_ = column_type(name, kinds)
    return pa.chunked_array([part.column(index, type_) for part in parts], type_)
