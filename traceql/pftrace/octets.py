"""Writes protobuf messages for many rows at once.

The messages are matrices of bytes: one row per message, of which only some bytes are used.
Protobuf's own objects would be filled row by row, which is far slower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_VARINT, _FIXED64, _DELIMITED = 0, 1, 2


@dataclass(frozen=True)
class _Part:
    """A matrix of bytes; each row's content is its used bytes, from left to right."""

    octets: npt.NDArray[np.uint8]
    used: Mask


@dataclass(frozen=True)
class Fields:
    """Fields of a message for each row: parts side by side, and the size of each row."""

    parts: Sequence[_Part]
    sizes: Numbers

    def where(self, rows: Mask) -> "Fields":
        """The same fields in these rows, and no fields in the others."""
        parts = [_Part(part.octets, part.used & rows[:, None]) for part in self.parts]
        return Fields(parts, self.sizes * rows)

    def joined(self) -> bytes:
        """All rows laid end to end."""
        octets = np.concatenate([part.octets for part in self.parts], axis=1)
        used = np.concatenate([part.used for part in self.parts], axis=1)
        return bytes(octets[used])


def constant(rows: int, content: bytes) -> Fields:
    """The same bytes in every row."""
    octets = np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))
    used = np.broadcast_to(True, octets.shape)
    return Fields([_Part(octets, used)], np.full(rows, len(content), np.uint64))


def varint_field(number: int, content: Numbers) -> Fields:
    return _tagged(number, _VARINT, _varints(content))


def fixed64_field(number: int, content: npt.NDArray[np.generic]) -> Fields:
    """A fixed64 or double field, of 64-bit integers or floats."""
    octets = content.astype(content.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 8)
    part = _Part(octets, np.broadcast_to(True, octets.shape))
    return _tagged(number, _FIXED64, Fields([part], np.full(len(content), 8, np.uint64)))


def text_field(number: int, texts: pa.Array) -> Fields:
    """A string field; empty for NULL."""
    return message(number, _texts(texts))


def message(number: int, *fields: Fields) -> Fields:
    """A field whose value is a message of these fields."""
    content = _beside(*fields)
    return _tagged(number, _DELIMITED, _varints(content.sizes), content)


def _tagged(number: int, wire_type: int, *content: Fields) -> Fields:
    tag = _varints(np.array([number << 3 | wire_type], np.uint64)).joined()
    return _beside(constant(len(content[0].sizes), tag), *content)


def _beside(*fields: Fields) -> Fields:
    sizes = fields[0].sizes.copy()
    for each in fields[1:]:
        sizes += each.sizes
    return Fields([part for each in fields for part in each.parts], sizes)


def _varints(numbers: Numbers) -> Fields:
    """Seven bits per byte, the lowest first; all bytes but the last have the top bit set."""
    width = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    rest = numbers[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))
    used = rest > 0
    used[:, 0] = True
    octets = rest.astype(np.uint8) & np.uint8(0x7F)
    octets[:, :-1] |= used[:, 1:].view(np.uint8) << 7
    return Fields([_Part(octets, used)], used.sum(axis=1, dtype=np.uint64))


def _texts(texts: pa.Array) -> Fields:
    texts = texts.cast(pa.large_string()).fill_null("")
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    sizes = np.diff(offsets)
    used = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    octets = np.zeros(used.shape, np.uint8)
    if data is not None:
        octets[used] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return Fields([_Part(octets, used)], sizes.astype(np.uint64))
