"""Protobuf's wire format: varints and fields, one by one or as NumPy arrays."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5  # wire types
_LONGEST_VARINT_BITS = 70  # ten bytes of seven bits, which hold 64

_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
# Masks that keep the low n bytes of a word; a varint of 8 to 10 bytes fills the word.
_LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(11)], np.uint64)
_SQUEEZES = (
    (np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


def tag(number: int, wire_type: int) -> bytes:
    """The bytes that precede the content of a field."""
    return varint(number << 3 | wire_type)


def varint(value: int) -> bytes:
    """One unsigned integer: seven bits per byte, lowest first, top bit set in all but the last."""
    low = bytearray()
    while value > 0x7F:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    low.append(value)
    return bytes(low)


def varint_at(message: bytes | memoryview, at: int) -> tuple[int, int]:
    """The unsigned integer that begins at offset `at`, and the offset behind it.

    Raises:
        IndexError: the message ends before the integer does.
        ValueError: it has more than the ten bytes of an integer of 64 bits.
    """
    value = shift = 0
    while shift < _LONGEST_VARINT_BITS:
        octet = message[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, at
        shift += 7
    raise ValueError("an integer of more than ten bytes")


def delimited_fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The number and content of each length-delimited field; fields of other types are skipped."""
    at = 0
    while at < len(message):
        key, at = varint_at(message, at)
        wire_type = key & 7
        if wire_type == DELIMITED:
            size, at = varint_at(message, at)
            yield key >> 3, message[at : at + size]
            at += size
        elif wire_type == VARINT:
            _, at = varint_at(message, at)
        else:
            at += 8 if wire_type == FIXED64 else 4


def packed_varints(packed: bytes) -> Int64s:
    """Reads the signed integers of a packed repeated int64 field.

    From the start of each integer it reads eight bytes as one word. Then it removes the top bit of
    every byte in three steps, which join 8 x 7 bits to 4 x 14, to 2 x 28 and to 56 bits. The ninth
    and tenth byte of long integers are added at the end.
    """
    octets = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(ends) == len(octets):
        return octets.astype(np.int64)
    starts = np.empty_like(ends)
    starts[:1] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    sizes = ends - starts + 1
    words = np.ndarray((len(octets),), "<u8", packed + bytes(8), strides=(1,))[starts]
    words &= _LOW_BYTES[sizes]
    words &= _SEVEN_BITS
    for high, shift in _SQUEEZES:
        moved = words & high
        words ^= moved
        moved >>= shift
        words |= moved
    for size, position in ((9, 56), (10, 63)):
        longer = np.flatnonzero(sizes >= size)
        octet = octets[starts[longer] + size - 1].astype(np.uint64)
        words[longer] |= (octet & np.uint64(0x7F)) << np.uint64(position)
    return words.view(np.int64)


def varints(numbers: UInt64s) -> tuple[Octets, Mask]:
    """Writes each integer as a varint.

    Returns:
        A row of bytes per integer, and which bytes of the row belong to it. The rows are as wide as
        the longest integer; `octets[used]` is all integers one after the other.
    """
    width = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    rest = numbers[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))
    used = rest > 0
    used[:, 0] = True
    octets = rest.astype(np.uint8) & np.uint8(0x7F)
    octets[:, :-1] |= used[:, 1:].view(np.uint8) << 7
    return octets, used
