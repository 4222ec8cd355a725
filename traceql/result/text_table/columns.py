"""Columns for people: a title with the unit, and a text for each value."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from traceql.result.text_table.measures import measured_columns
from traceql.result.text_table.plain import plain
from traceql.result.text_table.shared_units import shared_units
from traceql.result.text_table.texts import is_sentence, places
from traceql.result.text_table.values import python_values
from traceql.util.text import one_line, shortened
from traceql.util.units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_TEXT = 2_000  # letters; a name in a trace may have any number of them
_LARGE = 1e5  # from here on, digits after the point say nothing


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
        _column(name, each, numbers.get(name), units.get(name)) for name, each in values.items()
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


def _column(
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
