"""Writes results to stdout: as a table for people, or in a format for programs."""

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traceql.cli.console import print_table, print_text
from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.result import Result, RowStream
from traceql.sql.query import LIMIT, bound, query_named
from traceql.util.printable import one_line

if TYPE_CHECKING:
    import pyarrow as pa

_Command = TypeVar("_Command", bound=Callable[..., Any])
_MOST_ROWS = 1_000
# The formats, and how many rows of each are in memory at once. Of Parquet it is a row group.
_BATCH_ROWS = {"table": _MOST_ROWS, "csv": 4_096, "json": 4_096, "parquet": 65_536, "folded": 4_096}
_format = click.option(
    "--format",
    "format_",
    type=click.Choice(list(_BATCH_ROWS)),
    default="table",
    show_default=True,
    help="Output format, written to stdout. table is for people: readable units; empty columns and "
    "columns that do not fit are hidden. folded is for flamegraph.pl, speedscope and the like: "
    "stacks with their self time in ns (host.flame).",
)
wide_option = click.option(
    "--wide",
    is_flag=True,
    help="With --format table: show all columns, however long the lines become.",
)
spreadsheet_option = click.option(
    "--spreadsheet-safe",
    is_flag=True,
    help="With --format csv: put an apostrophe before texts that a spreadsheet would run as a "
    "formula (=, +, -, @).",
)


def format_option(command: _Command) -> _Command:
    """Adds --format and --spreadsheet-safe: the parameters `format_` and `spreadsheet_safe`."""
    return _format(spreadsheet_option(command))


def require_csv(format_: str, *, spreadsheet_safe: bool) -> None:
    if spreadsheet_safe and format_ != "csv":
        raise click.UsageError("--spreadsheet-safe needs --format csv")


@dataclass(frozen=True)
class TableForm:
    """How rows become a table for people.

    Attributes:
        empty: what it means that there are no rows.
        keys: the columns that are shown in any case, the most important first.
        wide: whether all columns are shown, however long the lines become.
        most_rows: how many are shown; None if the statement has a limit of its own.
    """

    empty: str = ""
    keys: Collection[str] = ()
    wide: bool = False
    most_rows: int | None = _MOST_ROWS


def write_rows(
    trace: Database,
    sql: str,
    parameters: dict[str, Any] | None = None,
    *,
    format_: str,
    spreadsheet_safe: bool = False,
    table: TableForm = TableForm(),
    public: bool = False,
) -> int:
    """Writes the rows of a statement to stdout, with memory for a batch of them; counts them.

    Args:
        public: whether the statement is the user's, who sees the public tables alone.
    """
    return write_stream(
        lambda rows: trace.batches(sql, parameters, rows=rows, public=public),
        format_=format_,
        spreadsheet_safe=spreadsheet_safe,
        table=table,
    )


def write_stream(
    batches: Callable[[int], RowStream],
    *,
    format_: str,
    spreadsheet_safe: bool = False,
    table: TableForm = TableForm(),
) -> int:
    """Writes rows to stdout, with memory for a batch of them; counts them.

    Args:
        batches: gives the rows in batches of at most so many.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    rows = _Counted(batches(_BATCH_ROWS[format_]))
    writers: dict[str, Callable[[], None]] = {
        "table": lambda: _write_table(rows, table),
        "csv": lambda: _write_csv(rows, spreadsheet_safe),
        "json": lambda: _write_json(rows),
        "parquet": lambda: _write_parquet(rows),
        "folded": lambda: _write_folded(rows, table.empty),
    }
    writers[format_]()
    return rows.count


class _Counted:
    """Batches that can be read once, and how many rows they had."""

    def __init__(self, rows: RowStream) -> None:
        self._rows = rows
        self.schema = rows.schema
        self.count = 0

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        for batch in self._rows:
            self.count += batch.num_rows
            yield batch


def _write_table(rows: _Counted, form: TableForm) -> None:
    import pyarrow as pa

    first: list[pa.RecordBatch] = []
    for batch in rows:
        shown = rows.count - batch.num_rows
        if form.most_rows is None:
            first.append(batch)
        elif shown < form.most_rows:
            first.append(batch.slice(0, form.most_rows - shown))
    if not rows.count:
        _say_empty(form.empty)
        return
    result = Result(pa.Table.from_batches(first, rows.schema))
    print_table(result, keys=form.keys, wide=form.wide, all_columns="--wide shows all")
    if len(result) < rows.count:
        _say_cut(len(result), rows.count, "--format csv")


def _say_empty(why: str) -> None:
    print_text(one_line(f"no rows: {why}" if why else "no rows"), err=True)


def print_answer(trace: Database, query: str, **parameters: Any) -> None:
    """Prints the table of a query, and below it the command that shows more, if there is more."""
    found = query_named(query, trace.queries)
    options = "".join(_option(name, value) for name, value in parameters.items())
    command = f"traceql run {query} {quote(str(trace.path))}{options}"
    result = trace.query(query, **parameters)
    more = one_line(f"{command} --wide shows all")
    print_table(result, keys=found.head.keys, all_columns=more)
    say_if_cut(trace, query, bound(found, parameters), len(result))


def _option(name: str, value: Any) -> str:
    return f" --{name}" if value is True else f" --{name} {value}"


def say_if_cut(trace: Database, query: str, parameters: dict[str, Any], rows: int) -> None:
    """Says how many rows a query has, if its limit left some out.

    Args:
        parameters: the values that were bound.
        rows: how many were shown.
    """
    if rows and rows == parameters.get(LIMIT):
        sys.stdout.flush()  # the table is there while the rows are counted
        if (total := trace.count(query, **parameters)) > rows:
            _say_cut(rows, total, "--limit 0")


def _say_cut(shown: int, rows: int, option: str) -> None:
    print_text(f"{shown:,} of {rows:,} rows; {option} for all", err=True)


def _write_csv(rows: _Counted, spreadsheet_safe: bool) -> None:
    from traceql.result.text_table.plain import csv_text

    for text in csv_text(rows.schema.names, rows, spreadsheet_safe=spreadsheet_safe):
        sys.stdout.write(text)


def _write_json(rows: _Counted) -> None:
    from traceql.result.text_table.plain import json_text

    for text in json_text(rows):
        sys.stdout.write(text)


def _write_parquet(rows: _Counted) -> None:
    if sys.stdout.isatty():
        raise TraceqlError("Parquet is binary; redirect it to a file: traceql ... > rows.parquet")
    from traceql.result.text_table.parquet import write_parquet

    write_parquet(rows.schema, rows, sys.stdout.buffer)


def _write_folded(rows: _Counted, empty: str) -> None:
    from traceql.result.text_table.folded import folded_text, require_stacks

    require_stacks(rows.schema)
    is_empty = True
    for text in folded_text(rows):
        sys.stdout.write(text)
        is_empty = is_empty and not text
    if is_empty:
        _say_empty(empty)
