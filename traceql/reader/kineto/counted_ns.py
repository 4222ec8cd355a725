"""Durations for the ledger, computed in a different way from those in the tables.

If both ways agree, neither has an error of arithmetic.
"""

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np
import numpy.typing as npt

# Microseconds below this are exact to the nanosecond in a double.
_EXACT_US = 2.0**40
_NEARLY_HALF = 1e-3  # of a nanosecond: this close to a half, a double may round the wrong way


def counted_ns(texts: Sequence[msgspec.Raw]) -> npt.NDArray[np.int64]:
    """Each number of microseconds in nanoseconds; 0 for a missing number."""
    try:
        us = np.fromstring(b",".join(texts), np.float64, sep=",")
    except ValueError:
        us = np.empty(0)
    if len(us) != len(texts) or (np.abs(us) >= _EXACT_US).any():
        return np.fromiter(map(_counted, texts), np.int64, len(texts))
    ns = us * 1000
    if (np.abs(ns % 1 - 0.5) < _NEARLY_HALF).any():
        return np.fromiter(map(_counted, texts), np.int64, len(texts))
    return np.rint(ns).astype(np.int64)


def _counted(text: msgspec.Raw) -> int:
    digits = bytes(text).decode().strip().strip('"')
    return round(Decimal(digits) * 1000) if digits and digits != "null" else 0
