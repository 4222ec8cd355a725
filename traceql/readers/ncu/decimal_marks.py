"""Reads numbers as `ncu` prints them, whose separators follow the locale of the machine.

1,024 is a thousand in one locale and one in another. Other numbers of a file tell which: 0.33 and
1,234,567 have a decimal point, 0,33 and 1.234.567 a decimal comma. Without any such number, and if
they contradict each other, a number that can be read in two ways is not read at all.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

_SEPARATED = re.compile(r"-?(\d+)([.,])([\d.,]*\d)")
_AMBIGUOUS = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}")
_GROUPED = re.compile(r"-?\d{1,3}(?:[., ]\d{2,3})*[., ]\d{3}(?:[.,]\d+)?")
_PLAIN = re.compile(r"[-+]?\d+")
_EXPONENT = re.compile(r"[-+]?\d+(?:\.\d+)?[eE][-+]?\d+")
# The raw page prints scaled values in this way, in every locale.
_SIX_PLACES = re.compile(r"-?\d+\.\d{6}")
_TOO_LARGE = 1e30  # for a counter
_GROUPS = str.maketrans("", "", "\u00a0\u202f'\u2019")  # of thousands, in other locales


class Mark(StrEnum):
    """What stands before the decimals."""

    POINT = "."
    COMMA = ","


@dataclass(frozen=True)
class Number:
    """A value, and the place value of its last digit."""

    value: float
    step: float


@dataclass(frozen=True)
class Evidence:
    """What the numbers of a file tell of its decimal mark.

    Attributes:
        mark: None if no number tells it, or if they contradict each other.
        numbers: how many numbers tell it, by mark.
        example: the first number that tells each mark.
    """

    mark: Mark | None
    numbers: dict[Mark, int]
    example: dict[Mark, str]


def evidence(texts: Iterable[str]) -> Evidence:
    """The decimal mark that these texts have in common."""
    numbers: Counter[Mark] = Counter()
    example: dict[Mark, str] = {}
    for text, count in Counter(texts).items():
        mark = _mark_of(text.translate(_GROUPS))
        if mark:
            numbers[mark] += count
            example.setdefault(mark, text)
    only = next(iter(numbers)) if len(numbers) == 1 else None
    return Evidence(only, dict(numbers), example)


@lru_cache(maxsize=65_536)  # most values of a profile are repeated
def number(text: str, mark: Mark | None) -> Number | None:
    """The number that a text is; None if it is none, or if `mark` is needed and not known."""
    found = _number(text.translate(_GROUPS), mark)
    return found if found and abs(found.value) < _TOO_LARGE else None


def _number(text: str, mark: Mark | None) -> Number | None:
    if _PLAIN.fullmatch(text):
        return Number(float(text), 1.0)
    if _SIX_PLACES.fullmatch(text):
        return Number(float(text), 1e-6)
    if _EXPONENT.fullmatch(text):
        return Number(float(text), 0.0)
    mark = _mark_of(text) or mark
    if mark is None or not _SEPARATED.fullmatch(text):
        return None
    other = Mark.COMMA if mark is Mark.POINT else Mark.POINT
    whole, _, places = text.partition(mark)
    if other in places or mark in places or not _are_groups(whole.lstrip("-").split(other)):
        return None
    return Number(float(f"{whole.replace(other, '')}.{places or 0}"), 10.0 ** -len(places))


def looks_like_number(text: str) -> bool:
    """Whether it is a number with groups of digits, which may be read in two ways or in none.

    Examples are 1,024 and 12,34,567.
    """
    return bool(_GROUPED.fullmatch(text.translate(_GROUPS)))


def _mark_of(text: str) -> Mark | None:
    """The decimal mark that a number tells by itself."""
    found = _SEPARATED.fullmatch(text)
    if not found or _SIX_PLACES.fullmatch(text):
        return None
    separators = [letter for letter in text if letter in ".,"]
    first, last = separators[0], Mark(separators[-1])
    if first != last:
        return last if separators.count(last) == 1 else None
    if len(separators) > 1:
        other = Mark.COMMA if last is Mark.POINT else Mark.POINT
        return other if _are_groups(text.lstrip("-").split(first)) else None
    return None if _AMBIGUOUS.fullmatch(text) else last


def _are_groups(parts: list[str]) -> bool:
    """Whether these are the groups of digits of a whole number."""
    first, *others = parts
    return (
        first.isdigit()
        and (not others or len(first) <= 3)
        and all(len(part) == 3 and part.isdigit() for part in others)
    )
