"""Rows that are numbers with a unit each: columns `value` and `unit`."""

from collections.abc import Sequence
from typing import Any

from traceql.table.shared_units import shared_divisor
from traceql.units import SIZE, TIME

VALUE, UNIT = "value", "unit"
_SCALES = {"ns": TIME, "bytes": SIZE}
_SYMBOLS = {"percent": "%"}


def measured_rows(
    values: Sequence[Any], units: Sequence[Any]
) -> tuple[list[str], list[str]] | None:
    """The text of each value and that of its unit; None unless all are numbers with units.

    Times share a unit, and so do sizes.
    """
    rows = list(zip(values, units, strict=False))
    if not rows or len(values) != len(units) or not all(_is_measure(*row) for row in rows):
        return None
    divisors = {
        unit: shared_divisor(scale, [value for value, each in rows if each == unit and value])
        for unit, scale in _SCALES.items()
    }
    shown = [_row(value, unit, divisors) for value, unit in rows]
    return [value for value, _ in shown], [unit for _, unit in shown]


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
