"""What a shell offers after Tab, beside commands, options and files."""

from pathlib import Path

import click

from traceql.errors import TraceqlError
from traceql.sql.query import catalog


def complete_queries(ctx: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """The names of queries."""
    try:
        found = catalog(ctx.params.get("queries") or ())
    except TraceqlError:
        return []
    return [name for name in found if name.startswith(begun)]


def complete_ranks(ctx: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The ranks of the database that the line names."""
    # Click gives up the line at an option without a value, and leaves its arguments unnamed.
    database = ctx.params.get("database") or next(iter(ctx.args), None)
    if database is None:
        return []
    from traceql.database.database import Database

    try:
        with Database(Path(database)) as trace:
            ranks = [
                str(row["rank"]) for row in trace.select("SELECT rank FROM trace ORDER BY rank")
            ]
    except TraceqlError:
        return []
    return [rank for rank in ranks if rank.startswith(begun)]
