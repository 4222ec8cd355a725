"""traceql check"""

import sys
from pathlib import Path
from shlex import quote

import click

from traceql.cli.console import print_command, print_table, print_text
from traceql.database.database import Database
from traceql.errors import QueryNotFound, TraceqlError
from traceql.sql.query import Query
from traceql.util.printable import one_line
from traceql.util.resources import CHECKS

_SHOWN_ROWS = 5


@click.command("check")
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "--checks",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder with your own checks: SQL files that return one row per violation.",
)
def command(database: Path, checks: tuple[Path, ...]) -> None:
    """Check the layers and sums of a database; the exit status is 1 if a check fails.

    A check is a query that returns violations: it passes if it has no rows.
    """
    failed = 0
    with Database(database) as trace:
        if (part := trace.excerpt_info) is not None:
            raise TraceqlError(f"{database} is an excerpt; check the whole run, {part.source}")
        for check in _checks(checks):
            found = trace.select(check.sql)
            mark = "✗" if len(found) else "✓"
            print_text(one_line(f"{mark} {check.name}: {_outcome(len(found))}"), hanging="  ")
            if len(found):
                failed += 1
                print_text(one_line(check.head.summary), before="  ")
                print_table(found.head(_SHOWN_ROWS))
                if len(found) > _SHOWN_ROWS:
                    print_text(f"{_SHOWN_ROWS} of {len(found):,} rows; for all of them:")
                    statement = f"traceql sql {quote(str(database))} - < {quote(str(check.path))}"
                    print_command(one_line(statement), before="  ")
    sys.exit(1 if failed else 0)


def _checks(own: tuple[Path, ...]) -> list[Query]:
    for folder in own:
        if not folder.is_dir():
            raise QueryNotFound(f"folder of checks {folder} does not exist; correct --checks")
    return [Query(path) for folder in (CHECKS, *own) for path in sorted(folder.glob("*.sql"))]


def _outcome(rows: int) -> str:
    return f"FAILED, {rows:,} row{'' if rows == 1 else 's'}" if rows else "pass"
