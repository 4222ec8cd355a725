"""Durations for the ledger, computed in a different way from those in the tables.

If both ways agree, neither has an error of arithmetic.
"""

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
# Microseconds below this are exact to the nanosecond in a double.
_EXACT_US = 2.0**40
_NEARLY_HALF = 1e-3  # of a nanosecond: this close to a half, a double may round the wrong way


def counted_ns(texts: Sequence[msgspec.Raw]) -> Int64s:
    """Each number of microseconds in nanoseconds; 0 for a missing number."""
    found = _by_doubles(b",".join(texts), len(texts))
    return _one_by_one(texts) if found is None else found


def counted_ns_of_list(text: bytes) -> Int64s:
    """The same for numbers in one text, with a comma after each."""
    found = _by_doubles(text[:-1], text.count(b","))
    return _one_by_one(text.split(b",")[:-1]) if found is None else found


def _by_doubles(text: bytes, numbers: int) -> Int64s | None:
    """None if the text does not have so many numbers, or doubles are not exact enough."""
    try:
        us = np.fromstring(text, np.float64, sep=",")
    except ValueError:
        return None
    if len(us) != numbers or (np.abs(us) >= _EXACT_US).any():
        return None
    ns = us * 1000
    if (np.abs(ns - np.floor(ns) - 0.5) < _NEARLY_HALF).any():
        return None
    return np.rint(ns).astype(np.int64)


def _one_by_one(texts: Sequence[bytes | msgspec.Raw]) -> Int64s:
    return np.fromiter(map(_counted, texts), np.int64, len(texts))


def _counted(text: bytes | msgspec.Raw) -> int:
    digits = bytes(text).decode().strip().strip('"')
    return round(Decimal(digits) * 1000) if digits and digits != "null" else 0
