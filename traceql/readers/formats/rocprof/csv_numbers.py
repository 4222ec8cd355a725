"""Reads single numbers of rocprofv3's CSV files."""

import math

_HEXADECIMAL = 16
_INT64 = range(-(2**63), 2**63)


def number_of(text: str | None) -> int | None:
    """An integer; None if it is none, or does not fit 64 bits."""
    try:
        found = int(text or "")
    except ValueError:
        return None
    return found if found in _INT64 else None


def decimal_of(text: str | None) -> float | None:
    """A number; None if it is none, or infinite."""
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def address_of(text: str | None) -> int | None:
    """An address, which is hexadecimal; None if it is none."""
    try:
        return int(text, _HEXADECIMAL) if text else None
    except ValueError:
        return None
