"""traceql sql"""

import sys
from pathlib import Path

import click

from traceql.cli.output import format_option, write_result
from traceql.trace import Trace


@click.command("sql")
@click.argument("database", type=click.Path(path_type=Path))
@click.argument("statement")
@format_option
def command(database: Path, statement: str, format_: str) -> None:
    """Run any SQL that reads: traceql sql run.duckdb "SELECT ...".

    STATEMENT - is read from stdin. The database is opened read-only; no statement can write or
    reach another file.
    """
    if statement == "-":
        statement = sys.stdin.read()
    with Trace(database) as trace:
        write_result(trace.sql(statement), format_)
