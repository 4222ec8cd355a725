"""traceql export"""

from pathlib import Path

import click

from traceql.printable import printable
from traceql.trace import Trace


@click.group("export")
def command() -> None:
    """Export a database to another format."""


@command.command("perfetto")
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="run.pftrace",
    show_default=True,
    help="File to write. It appears only when it is complete.",
)
def perfetto(database: Path, output: Path) -> None:
    """Write all ranks to one native Perfetto trace.

    It has the streams and threads as recorded, and above them tracks for steps, layers, roles,
    communication and idle time.
    """
    from traceql.pftrace import export_perfetto

    with Trace(database) as trace:
        export_perfetto(trace, output)
    size_mb = output.stat().st_size / 1e6
    click.echo(printable(f"wrote {output}, {size_mb:,.1f} MB; open it at https://ui.perfetto.dev"))
