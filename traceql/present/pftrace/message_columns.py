"""Encodes a protobuf message for each row of a table, for all rows at once.

The bytes of a field form a matrix with one row per message. Messages differ in length, so a mask
marks the bytes that are used. `benchmarks/codecs.py` compares this with protobuf's own objects;
`traceql.util.protobuf_wire` has the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.util.protobuf_wire import (
    DELIMITED,
    FIXED64,
    VARINT,
    Mask,
    Octets,
    UInt64s,
    tag,
    varints,
)


@dataclass(frozen=True)
class Fields:
    """Fields of every message.

    Attributes:
        parts: that follow each other: the bytes, a row per message, and which of them are used.
        sizes: the used bytes of each message.
    """

    parts: Sequence[tuple[Octets, Mask]]
    sizes: UInt64s

    def where(self, rows: Mask) -> "Fields":
        """The same fields in the selected rows; the others are empty."""
        parts = [(octets, used & rows[:, None]) for octets, used in self.parts]
        return Fields(parts, self.sizes * rows)

    def to_bytes(self) -> bytes:
        """The bytes of all rows, one row after the other."""
        octets, used = (np.concatenate(each, axis=1) for each in zip(*self.parts, strict=True))
        return bytes(octets[used])


def constant(rows: int, content: bytes) -> Fields:
    """The same bytes in every row."""
    octets = np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))
    used = np.broadcast_to(True, octets.shape)
    return Fields([(octets, used)], np.full(rows, len(content), np.uint64))


def varint_field(number: int, content: UInt64s) -> Fields:
    return _tagged(number, VARINT, _varints(content))


def fixed64_field(number: int, content: npt.NDArray[np.generic]) -> Fields:
    """A fixed64 or double field, from 64-bit integers or floats."""
    octets = content.astype(content.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 8)
    used = np.broadcast_to(True, octets.shape)
    return _tagged(number, FIXED64, Fields([(octets, used)], np.full(len(content), 8, np.uint64)))


def text_field(number: int, texts: pa.Array) -> Fields:
    """A string field; empty for NULL."""
    texts = texts.cast(pa.large_string()).fill_null("")
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    sizes = np.diff(offsets)
    used = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    octets = np.zeros(used.shape, np.uint8)
    if data is not None:
        octets[used] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return message_field(number, Fields([(octets, used)], sizes.astype(np.uint64)))


def message_field(number: int, *fields: Fields) -> Fields:
    """A field whose content is a message with these fields."""
    content = _concatenated(*fields)
    return _tagged(number, DELIMITED, _varints(content.sizes), content)


def _tagged(number: int, wire_type: int, *content: Fields) -> Fields:
    return _concatenated(constant(len(content[0].sizes), tag(number, wire_type)), *content)


def _concatenated(*fields: Fields) -> Fields:
    sizes = fields[0].sizes.copy()
    for each in fields[1:]:
        sizes += each.sizes
    return Fields([part for each in fields for part in each.parts], sizes)


def _varints(numbers: UInt64s) -> Fields:
    octets, used = varints(numbers)
    return Fields([(octets, used)], used.sum(axis=1, dtype=np.uint64))
