"""traceql lake remove"""

import click

from traceql.cli.lake.options import lake_option
from traceql.util.printable import printable


@click.command("remove")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@lake_option
def command(runs: tuple[str, ...], lake: str) -> None:
    """Remove runs from a lake, by the names that fleet.runs shows."""
    from traceql.runs.lake.maintenance import remove_runs

    for entry in remove_runs(lake, runs):
        click.echo(printable(f"removed: {entry.run}"), err=True)
