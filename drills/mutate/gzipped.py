"""Packs a text with gzip, well or badly."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from random import Random

from drills.mutate import octets

_BLANK = b" " * (64 << 20)


def packed(text: bytes, level: int = 9) -> bytes:
    """The text in a gzip member without a time, so that the same text gives the same bytes."""
    return gzip.compress(text, level, mtime=0)


def plain(text: bytes, random: Random) -> bytes:
    return packed(text, random.choice((0, 1, 9)))


def members(text: bytes, random: Random) -> bytes:
    """Several members, which may split the text anywhere."""
    at = sorted(random.randrange(len(text) + 1) for _ in range(random.choice((1, 3, 40))))
    return b"".join(packed(text[a:b], 1) for a, b in zip([0, *at], [*at, len(text)]))  # noqa: B905


def empty_members(text: bytes, random: Random) -> bytes:
    empty = packed(b"") * random.choice((1, 100))
    return empty + packed(text) + empty


def trailing_zeros(text: bytes, random: Random) -> bytes:
    return packed(text) + bytes(random.choice((1, 512, 100_000)))


def trailing_garbage(text: bytes, random: Random) -> bytes:
    return packed(text) + random.choice((b"x", b"\x1f\x8b", b"\x1f\x8b\x08garbage", b"\0x"))


def cut_off(text: bytes, random: Random) -> bytes:
    whole = packed(text)
    return whole[: -random.choice((1, 4, 8, 9, len(whole) // 2, len(whole) - 3))]


def wrong_sum(text: bytes, random: Random) -> bytes:
    whole = bytearray(packed(text))
    whole[-random.randint(1, 8)] ^= 1 << random.randrange(8)
    return bytes(whole)


def named(text: bytes, random: Random) -> bytes:
    """A header with a name, a comment and extra fields."""
    whole = packed(text)
    return whole[:3] + b"\x1c" + whole[4:10] + b"\x02\0ab" + b"../../x\0" + b"note\0" + whole[10:]


def twice(text: bytes, random: Random) -> bytes:
    return packed(packed(text))


def zlib_only(text: bytes, random: Random) -> bytes:
    return zlib.compress(text)


def bomb(text: bytes, random: Random) -> bytes:
    """The text behind or before hundreds of mebibytes of spaces, as one member or several."""
    blank = packed(_BLANK) * random.choice((1, 1, 4))
    return blank + packed(text) if random.random() < 0.5 else packed(text) + blank


def damaged(text: bytes, random: Random) -> bytes:
    return random.choice(list(octets.MUTATORS.values()))(packed(text), random)


MUTATORS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    function.__name__: function
    for function in (
        plain, members, empty_members, trailing_zeros, trailing_garbage, cut_off, wrong_sum, named,
        twice, zlib_only, bomb, damaged,
    )
}  # fmt: skip
