"""Base units of what Nsight Compute measures: bytes, nanoseconds, and others per second."""

from functools import cache
from typing import NamedTuple

_SECONDS = ("s", "second", "sec")
_TIMES_NS = {
    f"{prefix}{second}": factor
    for prefix, factor in (("n", 1.0), ("u", 1e3), ("m", 1e6), ("", 1e9))
    for second in _SECONDS
}
_PREFIXES = {"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_STEMS = {
    "b": "byte", "byte": "byte", "bytes": "byte", "hz": "hz", "inst": "inst", "cycle": "cycle",
    "sector": "sector", "request": "request", "thread": "thread", "warp": "warp",
}  # fmt: skip
_WORDS = {"%": "%", "percent": "%"}


class BaseUnit(NamedTuple):
    """A unit, and how many of it one of the file's unit is."""

    name: str
    factor: float


@cache
def base_unit(unit: str) -> BaseUnit:
    """The base unit of a unit; one that is not known stays as it is.

    Times are in ns, rates per second, sizes in bytes: Kbyte is 1,000, as `ncu` counts.
    """
    above, slash, below = unit.partition("/")
    if not slash:
        return _simple(unit)
    numerator = _simple(above)
    if below in _TIMES_NS:
        per_second = numerator.factor * 1e9 / _TIMES_NS[below]
        return BaseUnit("hz" if numerator.name == "cycle" else f"{numerator.name}/s", per_second)
    return BaseUnit(f"{numerator.name}/{below}", numerator.factor)


def _simple(unit: str) -> BaseUnit:
    if unit in _WORDS:
        return BaseUnit(_WORDS[unit], 1.0)
    if unit in _TIMES_NS:
        return BaseUnit("ns", _TIMES_NS[unit])
    if unit.lower() in _STEMS:
        return BaseUnit(_STEMS[unit.lower()], 1.0)
    stem = unit[1:].lower()
    if unit[:1] in _PREFIXES and stem in _STEMS:
        return BaseUnit(_STEMS[stem], _PREFIXES[unit[0]])
    return BaseUnit(unit, 1.0)
