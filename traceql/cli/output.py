"""Results on stdout, as a table for people or as CSV, JSON or Parquet for programs."""

import csv
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import click

from traceql.errors import TraceqlError
from traceql.result import Result
from traceql.units import Unit, display_unit

FORMATS = ("table", "csv", "json", "parquet")
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="How to write the rows; table is for people: readable units, no empty columns.",
)
_WIDTH_WITHOUT_TERMINAL = 160
_LONGEST_TEXT = 72
_NEVER_CUT = 20
_EDGES = 2
_BETWEEN_COLUMNS = 3


def write_result(result: Result, format_: str) -> None:
    """Writes all rows to stdout."""
    writers: dict[str, Callable[[Result], None]] = {
        "table": write_table,
        "csv": _write_csv,
        "json": _write_json,
        "parquet": _write_parquet,
    }
    writers[format_](result)


def write_table(result: Result) -> None:
    """Aligned columns in readable units; long names are cut to fit."""
    if not len(result):
        click.echo("no rows", err=True)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    console = Console(width=width, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    rows = result.rows()
    columns = [_Column(name, [row[name] for row in rows]) for name in result.columns]
    columns = [column for column in columns if column.has_values]
    shown = _fitting(columns, width - _EDGES)
    for column, room in zip(shown, _widths(shown, width - _EDGES), strict=True):
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=room,
        )
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    console.print(table)
    if hidden := [column.title for column in columns[len(shown) :]]:
        click.echo(f"not shown, for want of width: {', '.join(hidden)} (or --format csv)", err=True)


def _widths(columns: Sequence["_Column"], width: int) -> list[int]:
    """Each column's own width, the widest cut first where they do not fit."""
    widths = [column.width for column in columns]
    excess = sum(widths) + _BETWEEN_COLUMNS * (len(widths) - 1) - width
    while excess > 0:
        cuttable = [n for n, column in enumerate(columns) if widths[n] > column.min_width]
        if not cuttable:
            break
        widths[max(cuttable, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def _fitting(columns: list["_Column"], width: int) -> list["_Column"]:
    """As many of the first columns as have room, at least one."""
    used = 0
    for number, column in enumerate(columns):
        used += column.min_width + (_BETWEEN_COLUMNS if number else 0)
        if used > width:
            return columns[: max(number, 1)]
    return columns


class _Column:
    """One column of a table for people."""

    def __init__(self, name: str, values: list[Any]) -> None:
        numbers = [float(v) for v in values if isinstance(v, int | float | Decimal) and v == v]
        self.has_values = any(v is not None for v in values)
        self.is_number = bool(numbers) and not any(isinstance(v, bool | str) for v in values)
        largest = max(map(abs, numbers)) if self.is_number else 0
        self._unit: Unit | None = display_unit(name, largest) if self.is_number else None
        self.title = self._unit.title if self._unit else name

        self.cells = [self._cell(value) for value in values]
        # Only long text is cut where the terminal is narrow.
        self.width = max(map(len, [self.title, *self.cells]))
        self.min_width = self.width if self.is_number else min(self.width, _NEVER_CUT)

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
        return _shortened(" ".join(str(value).split()))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _write_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row.values()] for row in result)


def _cell(value: Any) -> Any:
    """A value for CSV: what is more than one number or text, as JSON."""
    plain = _plain(value)
    return json.dumps(plain, default=str) if isinstance(plain, list | dict) else plain


def _write_json(result: Result) -> None:
    """One array of row objects; NaN and infinities become null, as JSON has none."""
    rows = [{name: _plain(value) for name, value in row.items()} for row in result]
    json.dump(rows, sys.stdout, indent=1, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


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


def _write_parquet(result: Result) -> None:
    if sys.stdout.isatty():
        raise TraceqlError("parquet is binary; send it to a file: traceql ... > rows.parquet")
    import pyarrow.parquet as pq

    pq.write_table(result.arrow(), sys.stdout.buffer)
