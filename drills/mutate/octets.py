"""Damages bytes."""

from collections.abc import Callable, Mapping
from random import Random


def flip(content: bytes, random: Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        if damaged:
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def cut_out(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + content[last:]


def splice(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    at = random.randrange(len(content) + 1)
    return content[:at] + content[first:last] + content[at:]


def repeat(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + content[first:last] * random.choice((2, 3, 50)) + content[last:]


def zero(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + bytes(last - first) + content[last:]


def noise(content: bytes, random: Random) -> bytes:
    first, last = _interval(content, random)
    return content[:first] + random.randbytes(last - first) + content[last:]


def trailing(content: bytes, random: Random) -> bytes:
    return content + random.choice((b"\0" * 512, b"\n\n", b"garbage", b"}", b"]", content))


def _interval(content: bytes, random: Random) -> tuple[int, int]:
    first = random.randrange(len(content) + 1)
    return first, min(len(content), first + random.choice((1, 4, 64, 1024)))


MUTATORS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    function.__name__: function
    for function in (flip, cut_off, cut_out, splice, repeat, zero, noise, trailing)
}
