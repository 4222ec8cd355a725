"""Rows of numbers and texts that JSON and CSV can hold."""

import csv
import io
import json
from decimal import Decimal
from typing import Any

from traceql.result import Result


def plain_rows(result: Result) -> list[dict[str, Any]]:
    """One object per row; NaN and infinities become null, as JSON has none."""
    return [{name: _plain(value) for name, value in row.items()} for row in result]


def as_csv(result: Result) -> str:
    """A line of names, a line per row; what is more than one number or text is JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row.values()] for row in plain_rows(result))
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
