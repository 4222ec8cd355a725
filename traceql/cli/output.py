"""Writes results to stdout: as a table for people, or as CSV, JSON or Parquet for programs."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from traceql.cli.console import MOST_ROWS, print_table
from traceql.errors import TraceqlError
from traceql.printable import printable
from traceql.result import Result
from traceql.row_stream import RowStream
from traceql.trace import Trace

_Command = TypeVar("_Command", bound=Callable[..., Any])
# The formats, and how many rows of each are in memory at once. Of Parquet it is a row group.
_BATCH_ROWS = {"table": MOST_ROWS, "csv": 4_096, "json": 4_096, "parquet": 65_536}
_format = click.option(
    "--format",
    "format_",
    type=click.Choice(list(_BATCH_ROWS)),
    default="table",
    show_default=True,
    help="Output format, written to stdout. table is for people: readable units; empty columns, "
    f"columns that do not fit, and rows after the first {MOST_ROWS:,} are hidden.",
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


def write_rows(
    trace: Trace,
    sql: str,
    parameters: dict[str, Any] | None = None,
    *,
    format_: str,
    spreadsheet_safe: bool,
    empty: str = "",
) -> None:
    """Writes the rows of a statement to stdout, with memory for a batch of them.

    Args:
        empty: what it means that there are no rows; printed to stderr with the table format.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    rows = trace.batches(sql, parameters, rows=_BATCH_ROWS[format_])
    writers: dict[str, Callable[[], None]] = {
        "table": lambda: _write_table(rows, empty),
        "csv": lambda: _write_csv(rows, spreadsheet_safe),
        "json": lambda: _write_json(rows),
        "parquet": lambda: _write_parquet(rows),
    }
    writers[format_]()


def _write_table(rows: RowStream, empty: str) -> None:
    import pyarrow as pa

    first: list[pa.RecordBatch] = []
    shown = more = 0
    for batch in rows:
        kept = batch.slice(0, MOST_ROWS - shown)
        if kept.num_rows:
            first.append(kept)
        shown += kept.num_rows
        more += batch.num_rows - kept.num_rows
    if shown:
        print_table(Result(pa.Table.from_batches(first, rows.schema)), more=more)
    else:
        click.echo(printable(f"no rows: {empty}" if empty else "no rows"), err=True)


def _write_csv(rows: RowStream, spreadsheet_safe: bool) -> None:
    from traceql.table.plain import csv_text

    for text in csv_text(rows.schema.names, rows, spreadsheet_safe=spreadsheet_safe):
        sys.stdout.write(text)


def _write_json(rows: RowStream) -> None:
    from traceql.table.plain import json_text

    for text in json_text(rows):
        sys.stdout.write(text)


def _write_parquet(rows: RowStream) -> None:
    if sys.stdout.isatty():
        raise TraceqlError("Parquet is binary; redirect it to a file: traceql ... > rows.parquet")
    from traceql.table.parquet import write_parquet

    write_parquet(rows.schema, rows, sys.stdout.buffer)
