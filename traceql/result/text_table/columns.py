"""Columns for people: a title with the unit, and a text for each value.

Columns of one kind of quantity share a unit, so that they compare. Points in time, durations and
sizes are such kinds. Statistics of single events or tokens, such as a mean, are a kind of their own
where totals are much larger, and so are the parts of a fitted curve that grow with tokens: where
they are coefficients, they are tiny and yet count.

A table with columns `value` and `unit`, or `base`, `new` and `unit`, has a unit in each row.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import isfinite
from statistics import median_low
from typing import TYPE_CHECKING, Any

from traceql.result.text_table.values import is_sentence, places, plain, python_values
from traceql.util.text import one_line, shortened
from traceql.util.units import SIZE, TIME, Scale, Unit, display_unit, named_scale

if TYPE_CHECKING:
    import pyarrow as pa

_INSTANT = re.compile(r"(^|_)ts$")
_STATISTIC = re.compile(r"(^|_)(mean|median|min|max|per|p\d+|linear|context)(_|$)")
_CLEAR = 0.1  # of the unit: three digits are seen
_READABLE = 0.01
_MOST = 1e7  # a larger number is not read at a glance
_NEGLIGIBLE = 1e-5  # of the largest number: what is smaller needs no digits
VALUES, UNIT = (("value",), ("base", "new")), "unit"
_SCALES = {"ns": TIME, "bytes": SIZE}
_SYMBOLS = {"percent": "%"}
_LONGEST_TEXT = 2_000  # letters; a name in a trace may have any number of them
_LARGE = 1e5  # from here on, digits after the point say nothing


@dataclass(frozen=True)
class _Column:
    name: str
    scale: Scale
    largest: float
    typical: float  # the median of what is not zero; 0 if everything is

    def is_seen(self, divisor: float, least: float) -> bool:
        return not self.typical or self.typical >= least * divisor


def shared_units(columns: Mapping[str, Sequence[float]]) -> dict[str, Unit]:
    """The unit of each column that has one, by the columns' names and finite numbers."""
    units = {
        name: unit
        for name, numbers in columns.items()
        if not named_scale(name) and (unit := display_unit(name, 0))
    }
    kinds: dict[tuple[Scale, bool], list[_Column]] = {}
    for name, numbers in columns.items():
        if scale := named_scale(name):
            is_instant = bool(_INSTANT.search(name))
            kinds.setdefault((scale, is_instant), []).append(_column(name, scale, numbers))
    for alike in kinds.values():
        for column, divisor in _divisors(alike):
            units[column.name] = column.scale.unit(column.name, divisor)
    return units


def _column(name: str, scale: Scale, numbers: Collection[float]) -> _Column:
    sizes = [abs(number) for number in numbers if number]
    return _Column(name, scale, max(sizes, default=0), median_low(sizes) if sizes else 0)


def _divisors(columns: list[_Column]) -> Iterator[tuple[_Column, float]]:
    """The divisor of each column: one for all, or one for totals and one for statistics."""
    common = columns[0].scale.divisor(max(column.largest for column in columns))
    if all(column.is_seen(common, _CLEAR) for column in columns):
        yield from ((column, common) for column in columns)
        return
    statistics = [column for column in columns if _STATISTIC.search(column.name)]
    others = [column for column in columns if column not in statistics]
    for group, least in ((statistics, _CLEAR), (others, _READABLE)):
        is_zero = not any(column.typical for column in group)
        divisor = common if is_zero else _group_divisor(group, least)
        for column in group:
            fits = column.is_seen(divisor, _READABLE) or column in _negligible(columns)
            yield column, divisor if fits else column.scale.divisor(column.largest)


def _group_divisor(columns: Sequence[_Column], least: float = _READABLE) -> float:
    """That of the largest number, or a smaller one in which the other columns are seen."""
    largest = max(column.largest for column in columns)
    scale = columns[0].scale
    divisor = scale.divisor(largest)
    counting = [column for column in columns if column not in _negligible(columns)]
    for smaller in scale.below(divisor):
        is_seen = all(column.is_seen(divisor, least) for column in counting)
        if is_seen or largest >= _MOST * smaller:
            break
        divisor = smaller
    return divisor


def _negligible(columns: Sequence[_Column]) -> list[_Column]:
    """The columns with nothing but tiny parts of the largest number of all."""
    largest = max(column.largest for column in columns)
    return [column for column in columns if 0 < column.largest < _NEGLIGIBLE * largest]


def measured_columns(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """The texts of the columns of values and of units; none unless all are numbers with units.

    Times share a unit, and so do sizes.
    """
    units = columns.get(UNIT, ())
    for names in VALUES:
        values = [columns.get(name, ()) for name in names]
        if not units or any(len(column) != len(units) for column in values):
            continue
        rows = [row for column in values for row in zip(column, units, strict=True)]
        if all(_is_measure(*row) for row in rows):
            shown = zip(*_with_units(rows), strict=True)
            texts, symbols = (list(each) for each in shown)
            parts = [texts[first : first + len(units)] for first in range(0, len(rows), len(units))]
            return dict(zip((*names, UNIT), [*parts, symbols[: len(units)]], strict=True))
    return {}


def _is_measure(value: Any, unit: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (value is None or is_number) and isinstance(unit, str)


def _with_units(rows: Sequence[tuple[float | None, str]]) -> Iterator[tuple[str, str]]:
    divisors = {
        unit: _group_divisor([_column("", scale, [v for v, each in rows if each == unit and v])])
        for unit, scale in _SCALES.items()
    }
    for value, unit in rows:
        if value is None:
            yield "-", unit
        elif unit in _SCALES:
            yield f"{value / divisors[unit]:,.3f}", _SCALES[unit].symbol(divisors[unit])
        else:
            decimals = 0 if float(value).is_integer() and unit != "percent" else 1
            yield f"{value:,.{decimals}f}", _SYMBOLS.get(unit, unit)


@dataclass(frozen=True)
class DisplayColumn:
    """One column of a table for people.

    Attributes:
        name: as the query calls it.
        title: the name with the unit in place of its ending.
        values: as in the result, in the result's own unit.
        cells: a text for each value, as one line.
    """

    name: str
    title: str
    values: Sequence[Any]
    cells: Sequence[str]
    is_number: bool

    @cached_property
    def is_prose(self) -> bool:
        """Whether it has sentences, which must be whole, and not names alone."""
        return not self.is_number and any(map(is_sentence, self.cells))

    @cached_property
    def width(self) -> int:
        """The places of a terminal that the widest cell takes."""
        return max(map(places, self.cells), default=0)


def display_columns(table: "pa.Table", *, empty: bool = False) -> list[DisplayColumn]:
    """The columns that have any value."""
    named = zip(table.column_names, table.columns, strict=True)
    values = {name: python_values(column, name) for name, column in named}
    numbers = {name: found for name, each in values.items() if (found := _numbers(each))}
    units = shared_units(numbers)
    measured = measured_columns(values)
    columns = []
    for name, each in values.items():
        if not empty and all(value is None for value in each):
            continue
        unit, is_number = units.get(name), bool(numbers.get(name))
        decimals = _decimals(unit, numbers.get(name) or ())
        cells = measured.get(name) or [_cell(value, unit, decimals) for value in each]
        title = _text(unit.title if unit else name)
        columns.append(DisplayColumn(name, title, each, cells, is_number))
    return columns


def _numbers(values: Sequence[Any]) -> list[float] | None:
    """The finite numbers of a column; None if it has a value of another type."""
    if any(isinstance(value, bool | str) for value in values):
        return None
    return [float(v) for v in values if isinstance(v, int | float | Decimal) and isfinite(v)]


def _decimals(unit: Unit | None, numbers: Sequence[float]) -> int:
    if unit is None:
        return 1
    shown = [abs(number) / unit.divisor for number in numbers if number]
    is_large = bool(shown) and max(shown) >= _LARGE and min(shown) >= 1
    return 0 if is_large else unit.decimals


def _cell(value: Any, unit: Unit | None, decimals: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (unit is None or unit.divisor == 1):
        return f"{value:,}"
    if unit and isinstance(value, int | float | Decimal):
        number, least = float(value) / unit.divisor, 10**-decimals
        if 0 < abs(number) < least / 2:  # what is not zero does not look like zero
            return f"{'>-' if number < 0 else '<'}{least:.{decimals}f}"
        return f"{number:,.{decimals}f}" if number else "0"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict):
        value = " ".join(f"{key}={_inner(each)}" for key, each in value.items())
    return _text(value if isinstance(value, str) else _inner(value))


def _text(text: str) -> str:
    """As one line; a text of blanks alone is quoted, so that it is seen."""
    return shortened(one_line(text) or (repr(text) if text else ""), _LONGEST_TEXT)


def _inner(value: Any) -> str:
    """A value that is not a text, or one inside a list or a struct."""
    if isinstance(value, list | dict):
        return json.dumps(plain(value), ensure_ascii=False, default=str)
    return str(value if isinstance(value, Decimal) else plain(value))
