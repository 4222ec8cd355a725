"""Tables for people on a terminal."""

import shutil
from collections.abc import Sequence

import click

from traceql.result import Result
from traceql.table.columns import DisplayColumn, display_columns

MOST_ROWS = 1_000
_WIDTH_WITHOUT_TERMINAL = 160
_NEVER_CUT = 20
_EDGES = 2
_BETWEEN_COLUMNS = 3


def print_table(result: Result, *, more: int = 0) -> None:
    """Prints aligned columns in readable units; long texts are shortened to fit the terminal.

    Args:
        more: the number of rows that come after those of `result`.
    """
    more += max(0, len(result) - MOST_ROWS)
    result = result.head(MOST_ROWS)
    if not len(result):
        click.echo("no rows", err=True)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    console = Console(width=width, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    columns = display_columns(result.arrow())
    shown = _fitting(columns, width - _EDGES)
    for column, room in zip(shown, _widths(shown, width - _EDGES), strict=True):
        table.add_column(
            Text(column.title),  # a name is no markup
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=room,
        )
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(Text, cells))
    console.print(table)
    if hidden := [column.title for column in columns[len(shown) :]]:
        click.echo(
            f"columns hidden (terminal too narrow): {', '.join(hidden)}; use --format csv",
            err=True,
        )
    if more:
        click.echo(f"{more:,} more rows hidden; use --format csv", err=True)


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
