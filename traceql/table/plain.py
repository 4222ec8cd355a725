"""Arrow tables as plain values that JSON and CSV can hold."""

import csv
import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from traceql.table.values import python_rows

if TYPE_CHECKING:
    import pyarrow as pa


def plain_rows(table: "pa.Table") -> list[dict[str, Any]]:
    """One object per row; NaN and infinities become null because JSON cannot express them."""
    return [{name: _plain(value) for name, value in row.items()} for row in python_rows(table)]


def as_csv(table: "pa.Table") -> str:
    """A header line, then one line per row; lists and structs are written as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([_cell(value) for value in row.values()] for row in plain_rows(table))
    return text.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, list | dict) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
