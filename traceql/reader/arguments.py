"""The arguments of events: their text for the database, and the ids that join events."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from traceql.reader.kineto_json import Event, Raw
from traceql.reader.tables import JSON

_INT64 = range(-(2**63), 2**63)


class _Ids(msgspec.Struct, gc=False):
    external_id: Any = msgspec.field(name="External id", default=None)
    correlation: Any = None


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


def id_columns(events: Sequence[Event]) -> tuple[pa.Array, pa.Array]:
    """External id and correlation of each event, NULL where absent or no 64-bit integer."""
    ids = _decoded_ids(events)
    return int64_column([i.external_id for i in ids]), int64_column([i.correlation for i in ids])


def int64_column(values: Sequence[Any]) -> pa.Array:
    """Integers that fit 64 bits; NULL for anything else."""
    try:
        return pa.array(values, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        fitting = [v if type(v) is int and v in _INT64 else None for v in values]
        return pa.array(fitting, pa.int64())


def _decoded_ids(events: Sequence[Event]) -> list[_Ids]:
    joined = b"[" + b",".join([e.args or b"{}" for e in events]) + b"]"
    try:
        return msgspec.json.decode(joined, type=list[_Ids])
    except msgspec.DecodeError:
        return [_ids(e) for e in events]


def _ids(event: Event) -> _Ids:
    try:
        return msgspec.json.decode(event.args, type=_Ids)
    except msgspec.DecodeError:  # arguments that are no object, or a number beyond any type
        return _Ids()
