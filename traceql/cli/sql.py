"""traceql sql"""

import os
import sys
from pathlib import Path

import click

from traceql.cli.output import TableForm, format_option, wide_option, write_rows
from traceql.errors import QueryInvalid
from traceql.trace import Trace


@click.command("sql")
@click.argument("database", type=click.Path(path_type=Path))
@click.argument("statement")
@format_option
@wide_option
def command(
    database: Path, statement: str, format_: str, spreadsheet_safe: bool, wide: bool
) -> None:
    """Run one SQL statement, e.g. traceql sql run.duckdb "SELECT ...".

    If STATEMENT is -, it is read from stdin. The database is opened read-only: a statement can
    neither write nor read other files.
    """
    if statement == "-":
        statement = _given(sys.stdin.buffer.read())
    elif not statement.isascii():
        statement = _given(os.fsencode(statement))
    with Trace(database) as trace:
        write_rows(
            trace,
            statement,
            format_=format_,
            spreadsheet_safe=spreadsheet_safe,
            table=TableForm(wide=wide),
        )


def _given(statement: bytes) -> str:
    try:
        return statement.decode()
    except UnicodeDecodeError:
        raise QueryInvalid("the statement is not UTF-8; write bytes as '\\xFF'::BLOB") from None
