"""Writes results to stdout: as a table for people, or as CSV, JSON or Parquet for programs."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence

import click

from traceql.errors import TraceqlError
from traceql.result import Result
from traceql.table.columns import DisplayColumn, display_columns
from traceql.table.plain import as_csv, plain_rows

FORMATS = ("table", "csv", "json", "parquet")
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Output format, written to stdout. table is for people: readable units; empty columns and "
    "columns that do not fit are hidden.",
)
_WIDTH_WITHOUT_TERMINAL = 160
_NEVER_CUT = 20
_EDGES = 2
_BETWEEN_COLUMNS = 3


def write_result(result: Result, format_: str, *, empty: str = "") -> None:
    """Writes all rows to stdout.

    Args:
        empty: what it means that there are no rows; printed to stderr with the table format.
    """
    if format_ == "table" and not len(result):
        click.echo(f"no rows: {empty}" if empty else "no rows", err=True)
        return
    writers: dict[str, Callable[[Result], None]] = {
        "table": print_table,
        "csv": _write_csv,
        "json": _write_json,
        "parquet": _write_parquet,
    }
    writers[format_](result)


def print_table(result: Result) -> None:
    """Prints aligned columns in readable units; long texts are shortened to fit the terminal."""
    if not len(result):
        click.echo("no rows", err=True)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    console = Console(width=width, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    columns = display_columns(result.arrow())
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
        click.echo(
            f"columns hidden (terminal too narrow): {', '.join(hidden)}; use --format csv",
            err=True,
        )


def _widths(columns: Sequence[DisplayColumn], width: int) -> list[int]:
    """The width of each column; if they do not fit, the widest texts are shortened first."""
    widths = [column.width for column in columns]
    excess = sum(widths) + _BETWEEN_COLUMNS * (len(widths) - 1) - width
    while excess > 0:
        cuttable = [n for n, column in enumerate(columns) if widths[n] > _least(column)]
        if not cuttable:
            break
        widths[max(cuttable, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def _least(column: DisplayColumn) -> int:
    """The least width of a column: numbers are never shortened, texts only down to a minimum."""
    return column.width if column.is_number else min(column.width, _NEVER_CUT)


def _fitting(columns: list[DisplayColumn], width: int) -> list[DisplayColumn]:
    """As many of the first columns as fit, at least one."""
    used = 0
    for number, column in enumerate(columns):
        used += _least(column) + (_BETWEEN_COLUMNS if number else 0)
        if used > width:
            return columns[: max(number, 1)]
    return columns


def _write_csv(result: Result) -> None:
    sys.stdout.write(as_csv(result.arrow()))


def _write_json(result: Result) -> None:
    json.dump(plain_rows(result.arrow()), sys.stdout, indent=1, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def _write_parquet(result: Result) -> None:
    if sys.stdout.isatty():
        raise TraceqlError("Parquet is binary; redirect it to a file: traceql ... > rows.parquet")
    import pyarrow.parquet as pq

    pq.write_table(result.arrow(), sys.stdout.buffer)
