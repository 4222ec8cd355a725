"""traceql export"""

from pathlib import Path

import click

from traceql.trace import Trace


@click.group("export")
def command() -> None:
    """Write a database in another format."""


@command.command("perfetto")
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="run.pftrace",
    show_default=True,
    help="The file; it appears when everything is in it.",
)
def perfetto(database: Path, output: Path) -> None:
    """Write one native Perfetto trace of all ranks: streams as recorded, and above them steps,
    layers, roles, communication and idle time.
    """
    from traceql.pftrace import export_perfetto

    with Trace(database) as trace:
        export_perfetto(trace, output)
    click.echo(f"{output}: {output.stat().st_size / 1e6:,.1f} MB; traceql ui {database} opens it")
