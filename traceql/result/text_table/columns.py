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
from dataclasses import dataclass, replace
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

    @property
    def kind(self) -> tuple[Scale, bool]:
        return self.scale, bool(_INSTANT.search(self.name))

    def is_seen(self, divisor: float, least: float) -> bool:
        return not self.typical or self.typical >= least * divisor


def shared_units(columns: Mapping[str, Sequence[float]]) -> dict[str, Unit]:
    """The unit of each column that has one, by the columns' names and finite numbers."""
    units = {
        name: unit
        for name, numbers in columns.items()
        if not named_scale(name) and (unit := display_unit(name, 0))
    }
    scaled = [_column(name, named_scale(name), numbers) for name, numbers in columns.items()]
    for alike in _by_kind([column for column in scaled if column]):
        for column, divisor in _divisors(alike):
            units[column.name] = column.scale.unit(column.name, divisor)
    return units


def shared_divisor(scale: Scale, numbers: Collection[float]) -> float:
    """The divisor of one unit for all these numbers."""
    column = _column("", scale, numbers)
    return _group_divisor([column]) if column else 1


def _column(name: str, scale: Scale | None, numbers: Collection[float]) -> _Column | None:
    if scale is None:
        return None
    sizes = [abs(number) for number in numbers if number]
    return _Column(name, scale, max(sizes, default=0), median_low(sizes) if sizes else 0)


def _by_kind(columns: Sequence[_Column]) -> list[list[_Column]]:
    kinds: dict[tuple[Scale, bool], list[_Column]] = {}
    for column in columns:
        kinds.setdefault(column.kind, []).append(column)
    return list(kinds.values())


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
        if all(column.is_seen(divisor, least) for column in counting):
            break
        if largest >= _MOST * smaller:
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
    for names in VALUES:
        if found := _measured([columns.get(name, ()) for name in names], columns.get(UNIT, ())):
            return dict(zip((*names, UNIT), found, strict=True))
    return {}


def _measured(values: Sequence[Sequence[Any]], units: Sequence[Any]) -> list[list[str]]:
    rows = [(value, unit) for column in values for value, unit in zip(column, units, strict=False)]
    is_whole = all(len(column) == len(units) for column in values)
    if not rows or not is_whole or not all(_is_measure(*row) for row in rows):
        return []
    divisors = {
        unit: shared_divisor(scale, [value for value, each in rows if each == unit and value])
        for unit, scale in _SCALES.items()
    }
    shown = [
        [_row(value, unit, divisors) for value, unit in zip(column, units, strict=True)]
        for column in values
    ]
    return [*([value for value, _ in column] for column in shown), [unit for _, unit in shown[0]]]


def _is_measure(value: Any, unit: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (value is None or is_number) and isinstance(unit, str)


def _row(value: float | None, unit: str, divisors: dict[str, float]) -> tuple[str, str]:
    if value is None:
        return "-", unit
    if unit in _SCALES:
        divisor = divisors[unit]
        return f"{value / divisor:,.3f}", _SCALES[unit].symbol(divisor)
    decimals = 0 if float(value).is_integer() and unit != "percent" else 1
    return f"{value:,.{decimals}f}", _SYMBOLS.get(unit, unit)


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

    @property
    def has_values(self) -> bool:
        return any(value is not None for value in self.values)

    @cached_property
    def is_prose(self) -> bool:
        """Whether it has sentences, which must be whole, and not names alone."""
        return not self.is_number and any(map(is_sentence, self.cells))

    @cached_property
    def width(self) -> int:
        """The places of a terminal that the widest cell takes."""
        return max(map(places, self.cells), default=0)


def display_columns(table: "pa.Table", *, empty: bool = False) -> list[DisplayColumn]:
    """The columns that have any value.

    Args:
        empty: with the columns of NULLs only.
    """
    named = zip(table.column_names, table.columns, strict=True)
    values = {name: python_values(column, name) for name, column in named}
    numbers = {name: found for name, each in values.items() if (found := _numbers(each))}
    units = shared_units(numbers)
    columns = [
        _display_column(name, each, numbers.get(name), units.get(name))
        for name, each in values.items()
    ]
    measured = measured_columns(values)
    columns = [
        replace(column, cells=measured[column.name]) if column.name in measured else column
        for column in columns
    ]
    return [column for column in columns if empty or column.has_values]


def _numbers(values: Sequence[Any]) -> list[float] | None:
    """The finite numbers of a column; None if it has a value of another type."""
    if any(isinstance(value, bool | str) for value in values):
        return None
    return [float(v) for v in values if isinstance(v, int | float | Decimal) and isfinite(v)]


def _display_column(
    name: str, values: Sequence[Any], numbers: Sequence[float] | None, unit: Unit | None
) -> DisplayColumn:
    title = _text(unit.title if unit else name)
    decimals = _decimals(unit, numbers or ())
    cells = [_cell(value, unit, decimals) for value in values]
    return DisplayColumn(name, title, values, cells, bool(numbers))


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
        return _number(float(value) / unit.divisor, decimals)
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict):
        value = " ".join(f"{key}={_inner(each)}" for key, each in value.items())
    return _text(value if isinstance(value, str) else _inner(value))


def _number(value: float, decimals: int) -> str:
    """What is not zero does not look like zero."""
    least: float = 10**-decimals
    if 0 < abs(value) < least / 2:
        return f"{'>-' if value < 0 else '<'}{least:.{decimals}f}"
    return f"{value:,.{decimals}f}" if value else "0"


def _text(text: str) -> str:
    """As one line; a text of blanks alone is quoted, so that it is seen."""
    return shortened(one_line(text) or (repr(text) if text else ""), _LONGEST_TEXT)


def _inner(value: Any) -> str:
    """A value that is not a text, or one inside a list or a struct."""
    if isinstance(value, list | dict):
        return json.dumps(plain(value), ensure_ascii=False, default=str)
    return str(value if isinstance(value, Decimal) else plain(value))
