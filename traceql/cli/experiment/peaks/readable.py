"""Rows of limits for people: sizes from KiB to GiB stand in one column, and so do their times."""

from collections.abc import Mapping
from typing import Any

from traceql.util.units import SIZE


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with sizes as texts, and with times in microseconds."""
    return dict(_readable(name, value) for name, value in row.items())


def _readable(name: str, value: Any) -> tuple[str, Any]:
    if name == "bytes" or name.endswith("_bytes"):
        return name.removesuffix("_bytes").replace("bytes", "size"), _size(value)
    if name == "ns" or name.endswith("_ns"):
        time = None if value is None else value / 1e3
        return f"{name.removesuffix('ns').removesuffix('_') or 'time'} µs", time
    return name, value


def _size(size: int) -> str:
    """In the largest unit of which it has one."""
    divisor = SIZE.divisor(size)
    return f"{size / divisor:,.1f}".removesuffix(".0") + f" {SIZE.symbol(divisor)}"
