"""traceql export"""

from pathlib import Path
from typing import Any

import click

from traceql.cli.excerpt_options import Part, part_of, part_options, shown_part
from traceql.cli.large import tell_if_large_file
from traceql.cli.pair import opened_pair, tell_alignment
from traceql.database.database import open_database
from traceql.util.printable import printable


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
@part_options()
def perfetto(path: Path, new: Path | None, step: int | None, output: Path, **options: Any) -> None:
    """Write all ranks to one native Perfetto trace.

    It has the streams and threads as recorded, and above them tracks for steps, layers, roles,
    communication and idle time. PATH is a database, or traces to load first. With NEW, a second
    run, the file has both, aligned as `traceql ui` shows them.
    """
    part = part_of(options)
    if step is not None and new is None:
        raise click.UsageError(
            f"--step says where two runs are aligned; name a second run, or give --steps {step} "
            "for a file with only that step"
        )
    if new is not None and part.given:
        raise click.UsageError(
            f"{part.given} is for one run; for two, cut both with traceql cut, and export those"
        )
    if new is None:
        _write_one(path, output, part)
    else:
        _write_both(path, new, step, output)
    size_mb = output.stat().st_size / 1e6
    click.echo(printable(f"wrote {output}, {size_mb:,.1f} MB; open it at https://ui.perfetto.dev"))


def _write_one(path: Path, output: Path, part: Part) -> None:
    from traceql.present.pftrace import export_perfetto

    with open_database(path) as whole, shown_part(whole, part) as trace:
        tell_if_large_file(trace)
        export_perfetto(trace, output)


def _write_both(base: Path, new: Path, step: int | None, output: Path) -> None:
    from traceql.present.pftrace import export_runs

    with opened_pair(base, new, step) as pair:
        export_runs([pair.base, pair.new], output)
        tell_alignment(pair, base, new)
