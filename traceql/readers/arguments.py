"""Arguments of events: all of them as JSON text, and some of them as columns."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.dialects.pytorch.vocabulary import Argument
from traceql.readers.dictionary_codes import concatenated
from traceql.readers.tables import ACTIVITY, JSON

Int64s = npt.NDArray[np.int64]
_INT64 = range(-(2**63), 2**63)


def _named(key: Argument) -> Any:
    """A field that is decoded from `key`; None if an event has no such argument."""
    return msgspec.field(name=key.value, default=None)


class Arguments(msgspec.Struct, gc=False):
    """The arguments of one event that become columns; None if missing or of another type."""

    external_id: int | None = _named(Argument.EXTERNAL_ID)
    correlation: int | None = _named(Argument.CORRELATION)
    device: int | None = _named(Argument.DEVICE)
    stream: int | None = _named(Argument.STREAM)
    bytes: int | None = _named(Argument.BYTES)
    grid: list[int] | None = _named(Argument.GRID)
    block: list[int] | None = _named(Argument.BLOCK)
    graph_node_id: int | None = _named(Argument.GRAPH_NODE_ID)


_NOTHING = Arguments()
_FIELDS = msgspec.structs.fields(Arguments)
_ARGUMENTS = msgspec.json.Decoder(Arguments)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Texts:
    """Texts laid end to end, as Arrow stores them, without a Python object for each."""

    def __init__(self) -> None:
        self._text: list[bytes] = []
        self._sizes: list[Int64s] = []

    def add(self, texts: Sequence[bytes | msgspec.Raw]) -> tuple[bytes, Int64s]:
        """Appends texts; returns them joined into one, and the size of each in bytes."""
        text, sizes = b"".join(texts), np.fromiter(map(len, texts), np.int64, len(texts))
        self.extend(text, sizes)
        return text, sizes

    def extend(self, text: bytes, sizes: Int64s) -> None:
        """Appends texts that are laid end to end, and the size of each in bytes."""
        self._text.append(text)
        self._sizes.append(sizes)

    def json_column(self) -> pa.Array:
        """All texts as a JSON column, as in the file; NULL for an empty text."""
        sizes = concatenated(self._sizes)
        self._text = [b"".join(self._text)]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        valid = np.packbits(sizes > 0, bitorder="little")
        buffers = [pa.py_buffer(part) for part in (valid, offsets, *self._text)]
        texts = pa.Array.from_buffers(pa.large_string(), len(sizes), buffers)
        return pa.ExtensionArray.from_storage(JSON, texts)


def int64_column(values: Sequence[int | None]) -> pa.Array:
    """A column of integers; NULL for None and for integers that do not fit 64 bits."""
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return pa.array(whole_numbers(values), pa.int64())


def text_column(values: Iterable[Any]) -> pa.Array:
    """A column of texts: other values are converted to text, None becomes NULL."""
    texts = [None if value is None else str(value) for value in values]
    return pa.array(texts, pa.large_string())


def whole_numbers(values: Sequence[Any]) -> list[int | None]:
    """The values that are integers of at most 64 bits, also if written as 7.0; else None."""
    return [_whole_number(value) for value in values]


def _whole_number(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value in _INT64 else None


def decoded(text: bytes, sizes: Int64s) -> list[Arguments]:
    """The arguments of each event.

    Args:
        text: the arguments of all events, as JSON objects laid end to end.
        sizes: the bytes of `text` that belong to each event; 0 if it has no arguments.
    """
    try:
        found = _ARGUMENTS.decode_lines(text)
    except msgspec.DecodeError:
        ends = list(accumulate(sizes.tolist(), initial=0))
        return [_decoded(text[a:b]) for a, b in pairwise(ends)]
    if len(found) == len(sizes):
        return found
    in_order = iter(found)
    return [next(in_order) if there else _NOTHING for there in (sizes > 0).tolist()]


def _decoded(text: bytes) -> Arguments:
    """Decodes each argument on its own, so that one of a wrong type does not spoil the others."""
    try:
        given = _OBJECT.decode(text or b"{}")
    except msgspec.DecodeError:  # not an object
        return _NOTHING
    found = {
        f.name: _typed_value(given[f.encode_name], f.type)
        for f in _FIELDS
        if f.encode_name in given
    }
    return Arguments(**found)


def _typed_value(text: msgspec.Raw, type_: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.DecodeError:
        pass
    try:
        return _whole_number(msgspec.json.decode(text, type=float)) if type_ == int | None else None
    except msgspec.DecodeError:  # a text, or a number that no type can hold
        return None


_INT32 = range(-(2**31), 2**31)


def activity_table(rows: Int64s, arguments: Sequence[Arguments], first: int = 0) -> pa.Table:
    """One row per event in `rows`, NULL if an argument is missing or not a number.

    Args:
        rows: positions in `arguments`.
        first: the index, in the file, of the event that `arguments` starts with.
    """
    found = [arguments[row] for row in rows.tolist()]
    columns = [
        pa.array(first + rows),
        int64_column([a.device for a in found]),
        int64_column([a.stream for a in found]),
        int64_column([a.bytes for a in found]),
        _int32_lists([a.grid for a in found]),
        _int32_lists([a.block for a in found]),
        int64_column([a.graph_node_id for a in found]),
    ]
    return pa.table(columns, schema=ACTIVITY)


def _int32_lists(values: Sequence[Any]) -> pa.Array:
    type_ = pa.list_(pa.int32())
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([v if _holds_int32(v) else None for v in values], type_)


def _holds_int32(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and v in _INT32 for v in value)
