"""Text and tables for people on a terminal, and rows in a format for programs."""

import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.options import OutputFormat
from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.result import Result, RowStream
from traceql.result.text_table.columns import display_columns
from traceql.result.text_table.layout import Layout, layout, unlimited
from traceql.result.text_table.values import places, wrapped
from traceql.sql.query import LIMIT, Query, bound, query_named
from traceql.util.text import one_line

if TYPE_CHECKING:
    import pyarrow as pa

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
    """Prints aligned columns in readable units, and lists the columns that do not fit."""
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


MAX_TABLE_ROWS = 1_000
# Rows of each format in memory at once. Of Parquet it is a row group.
_BATCH_ROWS = {"table": MAX_TABLE_ROWS, "parquet": 65_536, "csv": 4_096, "json": 4_096}
_ALL_COLUMNS = "--wide shows all"


@dataclass(frozen=True)
class TableStyle:
    """How rows are printed as a table.

    Attributes:
        if_empty: the meaning of a result without rows.
        keys: the columns that are hidden last on a narrow terminal.
        max_rows: rows that are printed; None if the statement has a limit of its own.
    """

    if_empty: str = ""
    keys: Collection[str] = ()
    max_rows: int | None = MAX_TABLE_ROWS


def write_rows(
    database: Database,
    sql: str,
    parameters: dict[str, Any] | None,
    output_format: OutputFormat,
    style: TableStyle = TableStyle(),
    *,
    public: bool = False,
) -> int:
    """Writes the rows of a statement, a batch in memory at a time; returns their number.

    Args:
        public: the statement is the user's, and sees only the public tables.
    """
    return write_stream(
        lambda rows: database.batches(sql, parameters, rows=rows, public=public),
        output_format,
        style,
    )


def write_stream(
    stream: Callable[[int], RowStream],
    output_format: OutputFormat,
    style: TableStyle = TableStyle(),
) -> int:
    """Writes rows, a batch in memory at a time; returns their number."""
    batches = stream(_BATCH_ROWS.get(output_format.name, 4_096))
    rows = _Batches(batches.schema, batches)
    if output_format.name == "table":
        _write_table(rows, style, wide=output_format.wide)
    else:
        _write_plain(rows, output_format, style.if_empty)
    return rows.count


def write_result(
    result: Result, output_format: OutputFormat, *, keys: Collection[str] = ()
) -> None:
    """Writes the rows of a result that is in memory."""
    if output_format.name == "table":
        print_table(result, keys=keys, wide=output_format.wide, all_columns=_ALL_COLUMNS)
    else:
        rows = result.arrow()
        _write_plain(_Batches(rows.schema, rows.to_batches()), output_format)


def write_dicts(
    rows: list[dict[str, Any]], output_format: OutputFormat, *, keys: Collection[str] = ()
) -> None:
    import pyarrow as pa

    write_result(Result(pa.Table.from_pylist(rows)), output_format, keys=keys)


def write_query_list(queries: Mapping[str, Query], output_format: OutputFormat) -> None:
    heads = {name: query.head for name, query in queries.items()}
    rows = [
        {"query": name, "meaning": head.summary, "chart": head.chart and head.chart.kind}
        for name, head in heads.items()
    ]
    write_dicts(rows, output_format)


class _Batches:
    """Batches that can be read once, and the number of rows that were read."""

    def __init__(self, schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]") -> None:
        self._batches = batches
        self.schema = schema
        self.count = 0

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        for batch in self._batches:
            self.count += batch.num_rows
            yield batch


def _write_table(rows: _Batches, style: TableStyle, *, wide: bool) -> None:
    import pyarrow as pa

    first: list[pa.RecordBatch] = []
    for batch in rows:
        room = batch.num_rows
        if style.max_rows is not None:
            room = style.max_rows - (rows.count - batch.num_rows)
        if room > 0:
            first.append(batch.slice(0, room))
    if not rows.count:
        print_no_rows(style.if_empty)
        return
    result = Result(pa.Table.from_batches(first, rows.schema))
    print_table(result, keys=style.keys, wide=wide, all_columns=_ALL_COLUMNS)
    if len(result) < rows.count:
        print_text(f"{len(result):,} of {rows.count:,} rows; --format csv for all", err=True)


def print_no_rows(why: str) -> None:
    print_text(one_line(f"no rows: {why}" if why else "no rows"), err=True)


def print_query(database: Database, query: str, **parameters: Any) -> None:
    """Prints the table of a query, and how to see its hidden columns and rows."""
    found = query_named(query, database.queries)
    options = "".join(
        f" --{name}" if value is True else f" --{name} {value}"
        for name, value in parameters.items()
    )
    result = database.query(query, **parameters)
    command = one_line(f"traceql run {query} {quote(str(database.path))}{options} {_ALL_COLUMNS}")
    print_table(result, keys=found.head.keys, all_columns=command)
    print_if_limited(database, query, bound(found, parameters), len(result))


def print_if_limited(
    database: Database, query: str, parameters: dict[str, Any], printed: int
) -> None:
    """Prints the number of all rows, if the limit of the query left some out."""
    if printed and printed == parameters.get(LIMIT):
        sys.stdout.flush()  # show the table while the rows are counted
        if (total := database.count(query, **parameters)) > printed:
            print_text(f"{printed:,} of {total:,} rows; --limit 0 for all", err=True)


def _write_plain(rows: _Batches, output_format: OutputFormat, if_empty: str = "") -> None:
    from traceql.result.text_table import export

    safe = output_format.spreadsheet_safe
    match output_format.name:
        case "csv":
            sys.stdout.writelines(export.csv_text(rows.schema.names, rows, spreadsheet_safe=safe))
        case "json":
            sys.stdout.writelines(export.json_text(rows))
        case "folded":
            export.require_stacks(rows.schema)
            is_empty = True
            for text in export.folded_text(rows):
                sys.stdout.write(text)
                is_empty = is_empty and not text
            if is_empty:
                print_no_rows(if_empty)
        case _ if sys.stdout.isatty():
            raise TraceqlError(
                "Parquet is binary; redirect it to a file: traceql ... > rows.parquet"
            )
        case _:
            export.write_parquet(rows.schema, rows, sys.stdout.buffer)
