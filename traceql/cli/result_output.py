"""Writes a result that is in memory to stdout, in the formats of the other commands."""

import sys
from collections.abc import Collection

from traceql.cli.console import print_table
from traceql.errors import TraceqlError
from traceql.result import Result


def write_result(
    result: Result,
    *,
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
    keys: Collection[str] = (),
) -> None:
    """Writes the rows: a table for people, or csv, json or parquet for programs.

    Args:
        keys: the columns that stay longest in a table where the terminal is narrow.
    """
    rows = result.arrow()
    if format_ == "table":
        print_table(result, keys=keys, wide=wide, all_columns="--wide shows all")
    elif format_ == "csv":
        from traceql.result.text_table.plain import csv_text

        for text in csv_text(
            rows.column_names, rows.to_batches(), spreadsheet_safe=spreadsheet_safe
        ):
            sys.stdout.write(text)
    elif format_ == "json":
        from traceql.result.text_table.plain import json_text

        for text in json_text(rows.to_batches()):
            sys.stdout.write(text)
    elif sys.stdout.isatty():
        raise TraceqlError("Parquet is binary; redirect it to a file: traceql ... > rows.parquet")
    else:
        from traceql.result.text_table.parquet import write_parquet

        write_parquet(rows.schema, rows.to_batches(), sys.stdout.buffer)
