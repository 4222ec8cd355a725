"""Times of a JSON trace: decimal microseconds as integer nanoseconds, without floats."""

import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.timeline import absolute_sum, require_sum_fits

Int64s = npt.NDArray[np.int64]

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOT, _COMMA = b".,"
_INT64 = np.iinfo(np.int64)
_BEYOND_INT64 = 2**64
_LONGEST = 16 + 5  # microseconds of Unix time have 16 digits; a dot, three decimals and a comma


def nanoseconds(numbers: Sequence[bytes | msgspec.Raw]) -> Int64s:
    """Microseconds in JSON text (`12`, `12.345`, `"12.345"`, `1e3`) as nanoseconds.

    Fractions of a nanosecond are rounded half to even.

    Raises:
        TraceCorrupt: a text is not a number, or its nanoseconds do not fit 64 bits.
    """
    if not numbers:
        return np.empty(0, np.int64)
    joined = b",".join(numbers).replace(b'"', b"") + b","
    text = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(text == _COMMA)
    if len(ends) == len(numbers) and _all_have_three_decimals(joined, text, ends):
        fast = np.fromstring(joined[:-1].replace(b".", b""), np.int64, sep=",")
        if fast.max() < _INT64.max:  # otherwise a number did not fit
            return fast
    # Arrow reads no longer numbers, and it crashes at some exponents.
    is_plain = not joined.translate(None, b"0123456789.-,")
    if is_plain and len(ends) == len(numbers) and np.diff(ends, prepend=-1).max() <= _LONGEST:
        with suppress(pa.ArrowException):
            return _by_decimals(pa.array(joined[:-1].decode().split(","), pa.string()))
    return np.fromiter((_exact(bytes(n)) for n in numbers), np.int64, len(numbers))


def _by_decimals(numbers: pa.StringArray) -> Int64s:
    """Numbers of microseconds in nanoseconds.

    Raises:
        pa.ArrowException: one has more than three decimals, does not fit 64 bits or is none.
    """
    decimals = numbers.cast(pa.decimal128(38, 3))
    # Without their point, decimals are integers of 128 bits.
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    if ((words[:, 0] >> 63) != words[:, 1]).any():
        raise pa.ArrowInvalid("more than 64 bits")
    return words[:, 0].copy()


def _all_have_three_decimals(joined: bytes, text: npt.NDArray[np.uint8], ends: Int64s) -> bool:
    """Whether all numbers have 1 to 16 digits, a dot and 3 digits, as the profiler writes them.

    The text without its dots is then a list of nanoseconds.
    """
    if joined.translate(None, b"0123456789") != b".," * len(ends):
        return False
    sizes = ends[1:] - ends[:-1]
    longest = max(int(sizes.max(initial=0)), int(ends[0]) + 1)
    shortest = min(int(sizes.min(initial=_LONGEST)), int(ends[0]) + 1)
    return shortest >= 6 and longest <= _LONGEST and bool((text[ends - 4] == _DOT).all())


def _exact(number: bytes) -> int:
    shown = number[:40].decode(errors="replace")
    digits = number.strip().strip(b'"').strip()
    if not _NUMBER.fullmatch(digits):  # Decimal would accept 1_000 and digits of any script
        raise TraceCorrupt(f"{shown} is not a time")
    try:
        nanoseconds = Decimal(digits.decode()) * 1000
        # The integer of a large exponent would have that many digits.
        fits = not nanoseconds.is_finite() or abs(nanoseconds) < _BEYOND_INT64
        value = int(nanoseconds.to_integral_value(ROUND_HALF_EVEN)) if fits else _BEYOND_INT64
    except (ArithmeticError, ValueError):
        raise TraceCorrupt(f"{shown} is not a time") from None
    if not _INT64.min <= value <= _INT64.max:
        raise TraceCorrupt(f"time {shown} us does not fit 64-bit nanoseconds")
    return value


# Microseconds below this are exact to the nanosecond in a double.
_EXACT_US = 2.0**40
_NEARLY_HALF = 1e-3  # of a nanosecond: this close to a half, a double may round the wrong way


def counted_ns(texts: Sequence[msgspec.Raw]) -> Int64s:
    """Each number of microseconds in nanoseconds; 0 for a missing number."""
    found = _by_doubles(b",".join(texts), len(texts))
    return _one_by_one(texts) if found is None else found


def counted_ns_of_list(text: bytes) -> Int64s:
    """The same for numbers in one text with a comma after each."""
    found = _by_doubles(text[:-1], text.count(b","))
    return _one_by_one(text.split(b",")[:-1]) if found is None else found


def _by_doubles(text: bytes, numbers: int) -> Int64s | None:
    """None if the text has another number of values, or doubles are not exact enough."""
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


_LARGEST_NS = np.iinfo(np.int64).max


class Span:
    """The first and the last time of events, and their total duration."""

    def __init__(self) -> None:
        self._borders: tuple[int, int] | None = None
        self._ends_fit = True
        self._total = 0.0

    def add(self, ts: Int64s, dur: Int64s, *points: Int64s) -> None:
        """Adds slices (start and duration, ns), instants and samples (time, ns)."""
        ends = ts + np.maximum(dur, 0)
        self._ends_fit &= not (ends < ts).any()
        self._total += absolute_sum(dur)
        for times in filter(len, (ts, ends, *points)):
            self._extend(int(times.min()), int(times.max()))

    def require_fits(self) -> None:
        """Raises TraceCorrupt if ends, the whole span or the total duration exceed 64 bits."""
        first, last = self._borders or (0, 0)
        if not self._ends_fit or last - first > _LARGEST_NS:
            raise TraceCorrupt("events are more than 292 years apart; one of their times is wrong")
        require_sum_fits(self._total)

    def include(self, other: "Span") -> None:
        """Adds the events of another part of the file."""
        self._ends_fit &= other._ends_fit
        self._total += other._total
        self._extend(*(other._borders or ()))

    def _extend(self, *times: int) -> None:
        borders = (*times, *(self._borders or ()))
        self._borders = (min(borders), max(borders)) if borders else None
