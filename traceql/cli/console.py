"""Tables and text for people on a terminal."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from traceql.result.text_table.columns import display_columns
from traceql.result.text_table.layout import Layout, layout, unlimited
from traceql.result.text_table.texts import places, wrapped
from traceql.util.text import one_line

if TYPE_CHECKING:
    from traceql.result import Result

_WIDTH_WITHOUT_TERMINAL = 160
_MARGIN = " "
_CONTINUED = " \\"
_INDENT = " " * 4


def terminal_width() -> int:
    return shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns


def print_status(text: str) -> None:
    """Prints one line to stderr: progress, or what was written."""
    click.echo(one_line(text), err=True)


def print_warning(text: str) -> None:
    print_text(f"warning: {one_line(text)}", hanging="  ", err=True)


def print_text(
    text: str, *, before: str = "", hanging: str = "", bold: bool = False, err: bool = False
) -> None:
    """Prints a paragraph, wrapped to the terminal.

    Args:
        before: label to the left of the paragraph; above it where the label takes more than half
            of the terminal.
        hanging: indent of all lines but the first.
    """
    width = terminal_width()
    beside = places(before) if 2 * places(before) <= width else len(_INDENT)
    if beside < places(before):
        click.secho(before.rstrip(" "), bold=bold or None, err=err)
        before = _INDENT
    for line in wrapped(text, width - beside, hanging=hanging):
        click.secho(f"{before}{line}", bold=bold or None, err=err)
        before = " " * beside


def print_command(command: str, *, before: str) -> None:
    """Prints a shell command, with backslashes where it needs several lines."""
    lines: list[str] = []
    for word in one_line(command).split(" "):
        joined = f"{lines[-1]} {word}" if lines else word
        fits = places(joined) <= terminal_width() - len(before) - len(_CONTINUED)
        lines = [*lines[:-1], joined] if fits or not lines else [*lines, word]
    click.echo(before + f"{_CONTINUED}\n{' ' * len(before)}".join(lines))


def print_table(
    result: "Result", *, keys: Collection[str] = (), wide: bool = False, all_columns: str = ""
) -> None:
    """Prints aligned columns in readable units, and lists the columns that do not fit.

    Args:
        keys: the columns that are hidden last on a narrow terminal.
        wide: prints all columns, however long the lines become.
        all_columns: how to see the hidden columns.
    """
    if not len(result):
        click.echo("no rows", err=True)
        return
    rows = result.arrow()
    columns = display_columns(rows, empty=wide) or display_columns(rows, empty=True)
    room = terminal_width() - 2 * len(_MARGIN)
    plan = unlimited(columns) if wide else layout(columns, room, keys)
    click.echo("\n".join(["", *_lines(plan)]))
    if plan.hidden:
        names = ", ".join(column.name for column in plan.hidden)
        how = all_columns or "a wider terminal shows them"
        print_text(f"columns hidden: {names}; {how}", hanging="  ", err=True)


def _lines(plan: Layout) -> Iterator[str]:
    titles = [list(shown.title) for shown in plan.shown]
    height = max(map(len, titles))
    for line in _aligned([[""] * (height - len(title)) + title for title in titles], plan):
        yield click.style(line, bold=True)
    width = sum(shown.room for shown in plan.shown) + plan.gap * (len(plan.shown) - 1)
    yield _MARGIN + "─" * width
    is_tall = False
    for cells in zip(*(shown.column.cells for shown in plan.shown), strict=True):
        if is_tall:
            yield ""
        row = [shown.lines(cell) for shown, cell in zip(plan.shown, cells, strict=True)]
        is_tall = max(map(len, row)) > 1
        yield from _aligned(row, plan)


def _aligned(cells: Sequence[Sequence[str]], plan: Layout) -> Iterator[str]:
    """The lines of a row, whose cells have any number of lines."""
    for number in range(max(map(len, cells))):
        parts = [
            align(cell[number] if number < len(cell) else "", shown.room, shown.column.is_number)
            for cell, shown in zip(cells, plan.shown, strict=True)
        ]
        yield (_MARGIN + (" " * plan.gap).join(parts)).rstrip(" ")


def align(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - places(text))
    return blanks + text if right else text + blanks
