"""The schema of a profile of Nsight Compute, and values of metrics in base units."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

# One row per profiled launch, in the order of the file. Every column but `index` may be NULL.
LAUNCH = pa.schema(
    [
        ("index", pa.int64()),  # 0, 1, 2, ... in this order
        ("number", pa.int64()),  # ID in the file
        ("process_id", pa.int64()),
        ("device", pa.int64()),
        ("device_name", pa.string()),
        ("compute_capability", pa.string()),
        ("context", pa.int64()),
        ("stream", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.string()),  # kernel, graph or range
        ("grid", pa.list_(pa.int32())),
        ("block", pa.list_(pa.int32())),
        ("ranges", pa.list_(pa.string())),  # NVTX ranges, the outermost one first
    ]
)
# One row per launch and metric with a value. Sizes, times and rates are in base units.
METRIC = pa.schema(
    [
        ("launch", pa.int64()),  # LAUNCH.index
        ("section", pa.string()),  # NULL unless the details page names it
        ("metric", pa.string()),
        ("unit", pa.string()),  # base unit; NULL if it has none
        ("value", pa.float64()),  # NULL for a text
        ("text", pa.string()),  # a value that is not a number, as in the file
        ("file_unit", pa.string()),  # unit in the file; NULL if it has none
        ("step", pa.float64()),  # place value of the last digit in the file, in `unit`
    ]
)


@dataclass(frozen=True)
class Remark:
    """A statement about a file for the ledger; see table profile_check."""

    check_name: str
    value: int | None
    total: int | None
    ok: bool | None
    note: str


@dataclass(frozen=True)
class Profile:
    """A file of Nsight Compute."""

    path: Path
    sha256: str
    size_bytes: int
    page: str  # raw or details (pages of CSV), or report
    launches: pa.Table  # LAUNCH
    metrics: pa.Table  # METRIC
    remarks: list[Remark] = field(default_factory=list)


_TIMES_NS = {
    f"{prefix}{second}": factor
    for prefix, factor in (("n", 1.0), ("u", 1e3), ("m", 1e6), ("", 1e9))
    for second in ("s", "second", "sec")
}
_PREFIXES = {"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_STEMS = {
    "b": "byte", "byte": "byte", "bytes": "byte", "hz": "hz", "inst": "inst", "cycle": "cycle",
    "sector": "sector", "request": "request", "thread": "thread", "warp": "warp",
}  # fmt: skip


class BaseUnit(NamedTuple):
    """A base unit, and the factor from the file's unit."""

    name: str
    factor: float


@cache
def base_unit(unit: str) -> BaseUnit:
    """The base unit of a unit: ns, per second, bytes (Kbyte is 1,000 bytes in `ncu`), or itself."""
    above, slash, below = unit.partition("/")
    if not slash:
        return _simple(unit)
    numerator = _simple(above)
    if below in _TIMES_NS:
        per_second = numerator.factor * 1e9 / _TIMES_NS[below]
        return BaseUnit("hz" if numerator.name == "cycle" else f"{numerator.name}/s", per_second)
    return BaseUnit(f"{numerator.name}/{below}", numerator.factor)


def _simple(unit: str) -> BaseUnit:
    if unit in _TIMES_NS:
        return BaseUnit("ns", _TIMES_NS[unit])
    stem = unit[1:].lower()
    if unit.lower() not in _STEMS and unit[:1] in _PREFIXES and stem in _STEMS:
        return BaseUnit(_STEMS[stem], _PREFIXES[unit[0]])
    return BaseUnit("%" if unit == "percent" else _STEMS.get(unit.lower(), unit), 1.0)


_SEPARATED = re.compile(r"-?(\d+)([.,])([\d.,]*\d)")
_AMBIGUOUS = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}")
_GROUPED = re.compile(r"-?\d{1,3}(?:[., ]\d{2,3})*[., ]\d{3}(?:[.,]\d+)?")
_PLAIN = re.compile(r"[-+]?\d+")
_EXPONENT = re.compile(r"[-+]?\d+(?:\.\d+)?[eE][-+]?\d+")
# The raw page prints scaled values in this format in every locale.
_SIX_PLACES = re.compile(r"-?\d+\.\d{6}")
_TOO_LARGE = 1e30  # for a counter
_GROUPS = str.maketrans("", "", "\u00a0\u202f'\u2019")  # of thousands, in other locales


class Mark(StrEnum):
    """The decimal mark."""

    POINT = "."
    COMMA = ","

    @property
    def other(self) -> "Mark":
        return Mark.COMMA if self is Mark.POINT else Mark.POINT


@dataclass(frozen=True)
class Number:
    """A value, and the place value of its last digit."""

    value: float
    step: float


@dataclass(frozen=True)
class Evidence:
    """What the numbers of a file tell of its decimal mark.

    Attributes:
        mark: None if no number shows it, or if they contradict each other.
        numbers: how many numbers tell it, by mark.
        example: the first number that shows each mark.
    """

    mark: Mark | None
    numbers: dict[Mark, int]
    example: dict[Mark, str]


def evidence(texts: Iterable[str]) -> Evidence:
    """The common decimal mark of these texts."""
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
    """The number in a text; None for other texts, or if it is ambiguous without `mark`."""
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
    other = mark.other
    whole, _, places = text.partition(mark)
    if other in places or mark in places or not _are_groups(whole.lstrip("-").split(other)):
        return None
    return Number(float(f"{whole.replace(other, '')}.{places or 0}"), 10.0 ** -len(places))


def looks_like_number(text: str) -> bool:
    """Whether it is a number with groups of digits, ambiguous or invalid: 1,024 or 12,34,567."""
    return bool(_GROUPED.fullmatch(text.translate(_GROUPS)))


def _mark_of(text: str) -> Mark | None:
    """The decimal mark that a single number shows; None if it is ambiguous."""
    found = _SEPARATED.fullmatch(text)
    if not found or _SIX_PLACES.fullmatch(text):
        return None
    separators = [letter for letter in text if letter in ".,"]
    first, last = separators[0], Mark(separators[-1])
    if first != last:
        return last if separators.count(last) == 1 else None
    if len(separators) > 1:
        return last.other if _are_groups(text.lstrip("-").split(first)) else None
    return None if _AMBIGUOUS.fullmatch(text) else last


def _are_groups(parts: list[str]) -> bool:
    """Whether these are the groups of digits of an integer."""
    first, *others = parts
    return (
        first.isdigit()
        and (not others or len(first) <= 3)
        and all(len(part) == 3 and part.isdigit() for part in others)
    )


_BATCH_ROWS = 65_536
_SHOWN = 40  # letters of a value in a message
_SERIES = ("pmsampling:", "warpsampling:")
_NO_VALUE = ("n/a", "nan", "inf", "-inf")


def is_series(metric: str) -> bool:
    """Whether a metric is a series of samples over time instead of a value of the launch."""
    return metric.startswith(_SERIES)


class MetricRows:
    """Rows of METRIC.

    Attributes:
        count: the number of rows.
        unread: the texts of ambiguous or invalid numbers.
    """

    def __init__(self, mark: Mark | None) -> None:
        self._mark = mark
        self._columns: list[list[object]] = [[] for _ in METRIC]
        self._batches: list[pa.RecordBatch] = []
        self._rounded: Counter[float] = Counter()
        self._texts: Counter[tuple[str | None, str, str]] = Counter()  # section, metric, text
        self._measured: set[tuple[str | None, str]] = set()  # section and metric with numbers
        self.unread: list[str] = []
        self.count = 0

    def add(self, launch: int, section: str | None, metric: str, unit: str, text: str) -> None:
        """Adds a value as it is printed."""
        found = number(text, self._mark)
        if found or unit:
            self._measured.add((section, metric))
        if found is None and looks_like_number(text):
            self.unread.append(text)
        elif found is None and text and text.lower() not in _NO_VALUE:
            self._texts[section, metric, text] += 1
        self.add_value(launch, section, metric, unit, found or text)

    def add_value(
        self, launch: int, section: str | None, metric: str, unit: str, found: Number | str
    ) -> None:
        """Adds a number or a text."""
        base = base_unit(unit)
        value = step = text = None
        if isinstance(found, Number):
            value, step = _scaled(found.value, base.factor), found.step * base.factor
            if base.name == "byte" and step > 1:
                self._rounded[step] += 1
        else:
            text = found or None
        row = (launch, section, metric, base.name or None, value, text, unit or None, step)
        for column, cell in zip(self._columns, row, strict=True):
            column.append(cell)
        self.count += 1
        if self.count % _BATCH_ROWS == 0:
            self._finish_batch()

    def table(self) -> pa.Table:
        """All rows."""
        self._finish_batch()
        return pa.Table.from_batches(self._batches, METRIC)

    def _finish_batch(self) -> None:
        """Converts the last rows to Arrow, which takes a tenth of the memory."""
        self._batches.append(pa.record_batch(self._columns, schema=METRIC))
        self._columns = [[] for _ in METRIC]

    def no_numbers(self) -> Iterator[Remark]:
        """A remark if measured metrics have values that are not numbers."""
        odd = {key: n for key, n in self._texts.items() if key[:2] in self._measured}
        if odd:
            _, metric, text = next(iter(odd))
            yield Remark(
                "values of the profile that are not numbers", sum(odd.values()), self.count, False,
                f"values such as {text[:_SHOWN]} of {metric}, which are unknown; all values; print "
                "the profile again",
            )  # fmt: skip

    def rounded(self) -> Iterator[Remark]:
        """A remark if sizes are rounded to large units."""
        if self._rounded:
            worst = max(self._rounded)
            yield Remark(
                "rounded sizes of the profile", self._rounded.total(), self.count, None,
                f"values in bytes that are rounded, to {worst:,.0f} bytes at worst; all values; "
                "print the profile with --print-units base to have whole bytes",
            )  # fmt: skip


def _scaled(value: float, factor: float) -> float:
    """The product, without binary rounding errors: 4.1 Kbyte are 4100 bytes."""
    return round(value * factor, 9) if factor > 1 else value * factor
