"""traceql lake compact"""

import click

from traceql.cli.lake.options import lake_option


@click.command("compact")
@lake_option
@click.option(
    "--small",
    "small_mb",
    type=click.FloatRange(0, min_open=True),
    default=32,
    show_default=True,
    help="Merge files of less than so many MiB.",
)
def command(lake: str, small_mb: float) -> None:
    """Merge the small files of many runs into larger ones, and remove what no run names.

    Queries answer the same, and faster where there are many runs. One that runs meanwhile may have
    to be asked again.
    """
    from traceql.runs.lake.maintenance import compact

    done = compact(lake, small_bytes=int(small_mb * 2**20))
    strays = f"; removed {done.strays:,} that belonged to no run" if done.strays else ""
    click.echo(f"{done.before:,} files are now {done.after:,}{strays}", err=True)
