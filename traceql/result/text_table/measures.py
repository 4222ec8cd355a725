"""Numbers with a unit in each row: columns `value` and `unit`, or `base`, `new` and `unit`."""

from collections.abc import Mapping, Sequence
from typing import Any

from traceql.result.text_table.shared_units import shared_divisor
from traceql.util.units import SIZE, TIME

VALUES, UNIT = (("value",), ("base", "new")), "unit"
_SCALES = {"ns": TIME, "bytes": SIZE}
_SYMBOLS = {"percent": "%"}


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
