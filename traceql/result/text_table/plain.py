"""Arrow tables as plain values that JSON and CSV can hold."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from traceql.result.text_table.values import python_rows, python_values

if TYPE_CHECKING:
    import pyarrow as pa

_WIDE = "\uff1d\uff0b\uff0d\uff20"  # which a spreadsheet takes for =+-@
_FORMULA = re.compile(rf"[=+\-@\t\r\n{_WIDE}]")
_LINE_END = "\r\n"
_NOT_TEXT = (int, float, Decimal, type(None))
_BYTE = re.compile(rb"[^ -\[\]-~]")


def plain_rows(rows: "pa.Table | pa.RecordBatch") -> list[dict[str, Any]]:
    """One object per row; NaN and infinities become null because JSON cannot express them."""
    return [{name: plain(value) for name, value in row.items()} for row in python_rows(rows)]


def json_text(batches: "Iterable[pa.RecordBatch]") -> Iterator[str]:
    """A list with an object per row, in pieces."""
    before = "["
    for batch in batches:
        if batch.num_rows:
            listed = json.dumps(plain_rows(batch), indent=1, ensure_ascii=False, default=str)
            yield before + listed[1:-2]  # without its brackets
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def csv_text(
    names: Sequence[str],
    batches: "Iterable[pa.RecordBatch]",
    *,
    spreadsheet_safe: bool = False,
) -> Iterator[str]:
    """A header line, then one line per row, in pieces; lists and structs are written as JSON.

    Args:
        spreadsheet_safe: texts that a spreadsheet would take for a formula begin with an
            apostrophe.
    """
    cell = _safe_cell if spreadsheet_safe else _cell
    lines: list[str] = []
    # A writer quotes the characters that end its lines, and a cell may have a carriage return.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator=_LINE_END)
    writer.writerow([cell(name) for name in names])
    for batch in batches:
        columns = [_cells(*column, cell) for column in zip(batch.columns, names, strict=True)]
        writer.writerows(zip(*columns, strict=True))
        yield _taken(lines)
    yield _taken(lines)  # the header alone, if there are no batches


def _taken(lines: list[str]) -> str:
    text = "".join([line.removesuffix(_LINE_END) + "\n" for line in lines])
    lines.clear()
    return text


def _cells(column: "pa.Array", name: str, cell: Callable[[Any], Any]) -> Iterable[Any]:
    import pyarrow as pa

    values = python_values(column, name)
    is_exact = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return values if is_exact else map(cell, values)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(plain(value), default=str)
    if isinstance(value, Decimal) and value != value.to_integral_value():
        return f"{value:f}".rstrip("0")
    return plain(value)


def _safe_cell(value: Any) -> Any:
    cell = _cell(value)
    if isinstance(value, _NOT_TEXT) or not _FORMULA.match(str(cell)):
        return cell
    return f"'{cell}"


def plain(value: Any) -> Any:
    r"""A value as JSON has it; bytes as DuckDB writes them, `\x00abc`."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, bytes):
        return _BYTE.sub(lambda found: b"\\x%02X" % ord(found[0]), value).decode("ascii")
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {_key(key): plain(each) for key, each in value.items()}
    return value


def _key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | None) else str(plain(key))
