"""The arguments of events: their text for the database, and those that become columns."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from traceql.reader.kineto_json import Event, Raw
from traceql.reader.tables import JSON

_INT64 = range(-(2**63), 2**63)


class Arguments(msgspec.Struct, gc=False):
    """Those of an event that columns are made of, of whatever type they have in the file."""

    external_id: Any = msgspec.field(name="External id", default=None)
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    grid: Any = None
    block: Any = None
    graph_node_id: Any = msgspec.field(name="graph node id", default=None)


_NOTHING = Arguments()


def args_column(events: Sequence[Event]) -> pa.Array:
    """The text of each event's arguments as in the file; NULL where it has none."""
    return pa.ExtensionArray.from_storage(JSON, joined_strings([e.args for e in events]))


def joined_strings(texts: Sequence[Raw]) -> pa.Array:
    """A string for each text, without a Python object for any; NULL for an empty one."""
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    valid = np.packbits(sizes > 0, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def int64_column(values: Sequence[Any]) -> pa.Array:
    """Integers that fit 64 bits; NULL for anything else."""
    try:
        return pa.array(values, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        fitting = [v if type(v) is int and v in _INT64 else None for v in values]
        return pa.array(fitting, pa.int64())


def decoded(args: pa.Array) -> list[Arguments]:
    """The arguments of each event, from their column: objects, one after the other, no gaps."""
    texts = args.storage
    present = texts.is_valid().to_numpy(zero_copy_only=False)
    try:
        found = msgspec.json.Decoder(Arguments).decode_lines(texts.buffers()[2] or b"")
    except msgspec.DecodeError:
        return [_decoded(text) for text in texts.to_pylist()]
    if len(found) == len(present):
        return found
    in_order = iter(found)
    return [next(in_order) if there else _NOTHING for there in present.tolist()]


def _decoded(text: str | None) -> Arguments:
    try:
        return msgspec.json.decode(text or "{}", type=Arguments)
    except msgspec.DecodeError:  # arguments that are no object, or a number beyond any type
        return _NOTHING
