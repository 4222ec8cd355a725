"""traceql sql"""

import os
import sys
from pathlib import Path
from typing import Any

import click

from traceql.cli.excerpt_options import part_of, part_options, shown_part
from traceql.cli.output import TableForm, format_option, wide_option, write_rows
from traceql.database.database import Database
from traceql.errors import QueryInvalid


@click.command("sql")
@click.argument("database", type=click.Path(path_type=Path))
@click.argument("statement")
@format_option
@wide_option
@part_options()
def command(
    database: Path,
    statement: str,
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
    **part: Any,
) -> None:
    """Run one SQL statement, e.g. traceql sql run.duckdb "SELECT ...".

    If STATEMENT is -, it is read from stdin. The database is opened read-only: a statement can
    neither write nor read other files.
    """
    statement = given_statement(statement)
    with Database(database) as whole, shown_part(whole, part_of(part)) as trace:
        write_rows(
            trace,
            statement,
            format_=format_,
            spreadsheet_safe=spreadsheet_safe,
            table=TableForm(wide=wide),
            public=True,
        )


def given_statement(statement: str) -> str:
    """The statement of a command line, from stdin if it is -.

    Raises:
        QueryInvalid: it is not UTF-8.
    """
    if statement == "-":
        return _decoded(sys.stdin.buffer.read())
    return statement if statement.isascii() else _decoded(os.fsencode(statement))


def _decoded(statement: bytes) -> str:
    try:
        return statement.decode()
    except UnicodeDecodeError:
        raise QueryInvalid("the statement is not UTF-8; write bytes as '\\xFF'::BLOB") from None
