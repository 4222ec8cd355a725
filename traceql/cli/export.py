"""traceql export"""

from pathlib import Path

import click

from traceql.cli.pair import opened_pair, tell_alignment
from traceql.printable import printable
from traceql.trace import open_trace


@click.group("export")
def command() -> None:
    """Export a database to another format."""


@command.command("perfetto")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path), required=False)
@click.option("--step", type=int, help="With NEW: align at this step of PATH (step_id).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="run.pftrace",
    show_default=True,
    help="File to write. It appears only when it is complete.",
)
def perfetto(path: Path, new: Path | None, step: int | None, output: Path) -> None:
    """Write all ranks to one native Perfetto trace.

    It has the streams and threads as recorded, and above them tracks for steps, layers, roles,
    communication and idle time. PATH is a database, or traces to load first. With NEW, a second
    run, the file has both, aligned as `traceql ui` shows them.
    """
    if step is not None and new is None:
        raise click.UsageError("--step says where two runs are aligned; name a second run")
    if new is None:
        _write_one(path, output)
    else:
        _write_both(path, new, step, output)
    size_mb = output.stat().st_size / 1e6
    click.echo(printable(f"wrote {output}, {size_mb:,.1f} MB; open it at https://ui.perfetto.dev"))


def _write_one(path: Path, output: Path) -> None:
    from traceql.pftrace import export_perfetto

    with open_trace(path) as trace:
        export_perfetto(trace, output)


def _write_both(base: Path, new: Path, step: int | None, output: Path) -> None:
    from traceql.pftrace import export_runs

    with opened_pair(base, new, step) as pair:
        export_runs([pair.base, pair.new], output)
        tell_alignment(pair, base, new)
