"""Damages the structure of a JSON value: any type in any place."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Json = Any
_LEAVES: tuple[Json, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e300, "", "x", "7",
    "-3", [], {}, [[]], [None], {"": None}, [1, "2", {"3": 4}], {"a": {"b": []}},
)  # fmt: skip


_MOST_LEVELS = 900  # Python writes JSON of about 1,000


def any_type(value: Json, random: Random) -> Json:
    for _ in range(random.choice((1, 1, 2, 10))):
        holder, key = _place(value, random)
        if holder is not None:
            holder[key] = _copied(random.choice(_LEAVES))  # later damage must not change it
    return value


def remove(value: Json, random: Random) -> Json:
    for _ in range(random.choice((1, 1, 5))):
        holder, key = _place(value, random)
        if holder is not None:
            del holder[key]
    return value


def deep(value: Json, random: Random) -> Json:
    """A value inside hundreds of lists or objects."""
    holder, key = _place(value, random)
    if holder is not None:
        inner = holder[key]
        as_list = random.random() < 0.5
        for _ in range(min(random.choice((10, 200, 900)), _MOST_LEVELS - _levels(value))):
            inner = [inner] if as_list else {"in": inner}
        holder[key] = inner
    return value


def long_list(value: Json, random: Random) -> Json:
    holder, key = _place(value, random)
    if holder is not None:
        leaf = random.choice(_LEAVES)
        holder[key] = [_copied(leaf) for _ in range(random.choice((100, 10_000)))]
    return value


def swap(value: Json, random: Random) -> Json:
    """Two values change places."""
    (one, a), (other, b) = _place(value, random), _place(value, random)
    if one is not None and other is not None and one is other:
        one[a], one[b] = one[b], one[a]
    elif one is not None and other is not None and _levels(value) < _MOST_LEVELS // 2:
        one[a] = _copied(other[b])
    return value


def _levels(value: Json) -> int:
    """How deep lists and objects are nested."""
    levels, found = 0, [value]
    while found:
        parts = (one.values() if isinstance(one, dict) else one for one in found)
        found = [inner for each in parts for inner in each if isinstance(inner, dict | list)]
        levels += 1
    return levels


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _place(value: Json, random: Random) -> tuple[Any, Any]:
    """A random place: an object or list, and a key or position in it; (None, None) if empty."""
    holder: Json = None
    key: Json = None
    while isinstance(value, dict | list) and value:
        if holder is not None and random.random() < 0.25:
            break
        holder = value
        key = (
            random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        )
        value = value[key]
    return holder, key


MUTATORS: Mapping[str, Callable[[Json, Random], Json]] = {
    function.__name__: function for function in (any_type, remove, deep, long_list, swap)
}
