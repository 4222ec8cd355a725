"""Tables and sentences for people on a terminal."""

import shutil
from collections.abc import Collection, Iterator, Sequence

import click

from traceql.result import Result
from traceql.result.text_table.columns import display_columns
from traceql.result.text_table.layout import Layout, ShownColumn, layout, unlimited
from traceql.result.text_table.texts import places, wrapped

_WIDTH_WITHOUT_TERMINAL = 160
_MARGIN = " "
_CONTINUED = " \\"
_INDENT = " " * 4


def terminal_width() -> int:
    return shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns


def print_text(
    text: str, *, before: str = "", hanging: str = "", bold: bool = False, err: bool = False
) -> None:
    """Prints a paragraph in lines that fit the terminal.

    Args:
        before: stands before the paragraph, whose lines begin below its end; alone in its line
            where the terminal is so narrow that it takes half of it.
        hanging: what every line but the first begins with.
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
    """Prints a command; where it is long, in lines that a shell takes for one."""
    words, room = command.split(" "), terminal_width() - len(before) - len(_CONTINUED)
    lines = [words[0]]
    for word in words[1:]:
        joined = f"{lines[-1]} {word}"
        lines = [*lines[:-1], joined] if places(joined) <= room else [*lines, word]
    click.echo(before + f"{_CONTINUED}\n{' ' * len(before)}".join(lines))


def print_table(
    result: Result, *, keys: Collection[str] = (), wide: bool = False, all_columns: str = ""
) -> None:
    """Prints aligned columns in readable units; says which columns did not fit the terminal.

    Args:
        keys: the columns that stay longest where the terminal is narrow.
        wide: prints all columns, however long the lines become.
        all_columns: what shows the columns that do not fit.
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
    for line in _joined([[""] * (height - len(title)) + title for title in titles], plan):
        yield click.style(line, bold=True)
    whole = sum(shown.room for shown in plan.shown) + plan.gap * (len(plan.shown) - 1)
    yield _MARGIN + "─" * whole
    tall = False
    for cells in zip(*(shown.column.cells for shown in plan.shown), strict=True):
        if tall:
            yield ""
        row = [shown.lines(cell) for shown, cell in zip(plan.shown, cells, strict=True)]
        tall = max(map(len, row)) > 1
        yield from _joined(row, plan)


def _joined(cells: Sequence[Sequence[str]], plan: Layout) -> Iterator[str]:
    """The lines of a row, whose cells have any number of lines."""
    for number in range(max(map(len, cells))):
        parts = [
            _padded(cell[number] if number < len(cell) else "", shown)
            for cell, shown in zip(cells, plan.shown, strict=True)
        ]
        yield (_MARGIN + (" " * plan.gap).join(parts)).rstrip(" ")


def _padded(text: str, shown: ShownColumn) -> str:
    blanks = " " * (shown.room - places(text))
    return blanks + text if shown.column.is_number else text + blanks
