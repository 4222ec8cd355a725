"""traceql check"""

import sys
from pathlib import Path

import click

from traceql.cli.output import write_table
from traceql.errors import QueryNotFound
from traceql.query import Query
from traceql.resources import CHECKS
from traceql.trace import Trace

_SHOWN_ROWS = 5


@click.command("check")
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "--checks",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder of checks of your own: SQL files of which no row is a pass.",
)
def command(database: Path, checks: tuple[Path, ...]) -> None:
    """Run every check: a query that returns what is wrong, so that no rows are a pass."""
    failed = 0
    with Trace(database) as trace:
        for check in _checks(checks):
            found = trace.sql(check.sql)
            click.echo(f"{'✗' if len(found) else '✓'} {check.name}: {_outcome(len(found))}")
            if len(found):
                failed += 1
                click.echo(f"  {check.head.summary}")
                write_table(found.head(_SHOWN_ROWS))
    sys.exit(1 if failed else 0)


def _checks(own: tuple[Path, ...]) -> list[Query]:
    for folder in own:
        if not folder.is_dir():
            raise QueryNotFound(f"no folder {folder} with checks")
    return [Query(path) for folder in (CHECKS, *own) for path in sorted(folder.glob("*.sql"))]


def _outcome(rows: int) -> str:
    return f"{rows:,} rows, see below" if rows else "pass"
