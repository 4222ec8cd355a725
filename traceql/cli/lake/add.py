"""traceql lake add"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.lake.options import lake_option
from traceql.printable import one_line

if TYPE_CHECKING:
    from traceql.lake.add import Added


@click.command("add")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@lake_option
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Load so many runs at once; by default as many as processors and memory permit.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Also add what the lake has, as after an upgrade of traceql; the new rows replace the old "
    "ones.",
)
@click.option(
    "--trace-processor",
    type=click.Path(path_type=Path),
    help="Native trace_processor_shell to use instead of the bundled one.",
)
def command(
    runs: tuple[Path, ...],
    lake: str,
    jobs: int | None,
    again: bool,
    trace_processor: Path | None,
) -> None:
    """Add runs to a lake, which is created if it does not exist.

    Each RUN is one run: a database of traceql load, or a trace, a folder of ranks or a run
    directory, which is loaded first. What the lake has is not added twice, known by the SHA-256 of
    the traces. A run that cannot be loaded is noted in the lake, the others are added, and the exit
    status is 1. Several of these commands may run at the same time.
    """
    from traceql.lake.fan_out import add_runs

    failures = 0
    for added in add_runs(runs, lake, jobs=jobs, trace_processor=trace_processor, again=again):
        click.echo(one_line(_told(added)), err=True)
        failures += not added.entry.is_ok
    if failures:
        sys.exit(1)


def _told(added: "Added") -> str:
    entry = added.entry
    if not entry.is_ok:
        return f"failed: {entry.source}: {entry.error}"
    if not added.is_new:
        return f"nothing to do: {entry.run} is in the lake since {entry.added}"
    kernel = entry.tables.get("kernel")
    ranks = entry.about.ranks or 0
    counted = f"{ranks} {'rank' if ranks == 1 else 'ranks'}, {kernel.rows if kernel else 0:,}"
    return f"added: {entry.run}, {counted} GPU activities, {entry.size_bytes / 1e6:,.1f} MB"
