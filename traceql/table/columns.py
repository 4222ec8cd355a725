"""Columns for people: a title with the unit, and a text for each value."""

import json
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from traceql.printable import one_line, shortened
from traceql.table.plain import plain
from traceql.table.values import python_values
from traceql.units import Unit, display_unit

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_TEXT = 72


class DisplayColumn:
    """One column of a table for people."""

    def __init__(self, name: str, values: list[Any]) -> None:
        numbers = [float(v) for v in values if isinstance(v, int | float | Decimal) and isfinite(v)]
        self.name = name
        self.values = values
        self.has_values = any(v is not None for v in values)
        self.is_number = bool(numbers) and not any(isinstance(v, bool | str) for v in values)
        largest = max(map(abs, numbers)) if self.is_number else 0
        self._unit: Unit | None = display_unit(name, largest) if self.is_number else None
        self.title = _text(self._unit.title if self._unit else name)
        self.cells = [self._cell(value) for value in values]

    @cached_property
    def width(self) -> int:
        """The places of a terminal that the widest text takes: a letter of East Asia takes two."""
        from rich.cells import cell_len

        return max(map(cell_len, [self.title, *self.cells]))

    def _cell(self, value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self._unit and not (isinstance(value, int) and self._unit.divisor == 1):
            return f"{float(value) / self._unit.divisor:,.{self._unit.decimals}f}"
        if isinstance(value, float):
            return f"{value:,.1f}"
        if isinstance(value, int):
            return f"{value:,}"
        if isinstance(value, dict):
            value = " ".join(f"{key}={_inner(each)}" for key, each in value.items())
        return _text(value if isinstance(value, str) else _inner(value))


def display_columns(table: "pa.Table") -> list[DisplayColumn]:
    """The columns that have any value; a column of NULLs only is not shown."""
    named = zip(table.column_names, table.columns, strict=True)
    columns = [DisplayColumn(name, python_values(values, name)) for name, values in named]
    return [column for column in columns if column.has_values]


def _text(text: str) -> str:
    """As one line; a text of blanks alone is quoted, so that it is seen."""
    return shortened(one_line(text) or (repr(text) if text else ""), _LONGEST_TEXT)


def _inner(value: Any) -> str:
    """A value that is not a text, or one inside a list or a struct."""
    if isinstance(value, list | dict):
        return json.dumps(plain(value), ensure_ascii=False, default=str)
    return str(value if isinstance(value, Decimal) else plain(value))
