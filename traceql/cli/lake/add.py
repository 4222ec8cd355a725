"""traceql lake add"""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.lake.options import lake_option
from traceql.cli.lake.pace import Pace
from traceql.util.printable import one_line

if TYPE_CHECKING:
    from traceql.runs.lake.add import Added
    from traceql.runs.lake.executor.task import Executor

_PROCESSES, _RAY, _PRINT = "processes", "ray", "print"


@click.command("add")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@lake_option
@click.option(
    "--executor",
    type=click.Choice([_PROCESSES, _RAY, _PRINT]),
    help="What loads the runs: processes of this machine, the machines of a Ray cluster (extra "
    "ray), or whatever runs the commands that are printed, one for each run.  [default: processes]",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="The Ray cluster, such as 10.0.0.1:6379; auto for that of this machine. It implies "
    "--executor ray.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Load so many runs at once; by default as many as processors and memory permit.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Give a run up after so long; by default 600, and 0.5 for each MB of its traces.",
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
    executor: str | None,
    ray: str | None,
    jobs: int | None,
    timeout: float | None,
    again: bool,
    trace_processor: Path | None,
) -> None:
    """Add runs to a lake, which is created if it does not exist.

    Each RUN is one run: a database of traceql load, or a trace, a folder of ranks or a run
    directory, which is loaded first. What the lake has is not added twice, known by the SHA-256 of
    the traces. A run that cannot be loaded is noted in the lake, the others are added, and the exit
    status is 1. Several of these commands may run at the same time.
    """
    if ray and executor not in (None, _RAY):
        raise click.UsageError(f"--ray is for --executor ray, not {executor}")
    if executor == _PRINT:
        from traceql.runs.lake.fan_out import commands

        for line in commands(runs, lake, *_options(timeout, trace_processor, again=again)):
            click.echo(line)
        return
    from traceql.runs.lake.fan_out import add_runs

    pace = Pace()
    failures = 0
    adding = add_runs(
        runs,
        lake,
        _executor(executor, ray, jobs, timeout),
        timeout_s=timeout,
        trace_processor=trace_processor,
        again=again,
        done=pace.note,
    )
    with closing(adding):
        for added in adding:
            click.echo(one_line(_told(added)) + pace.text(), err=True)
            failures += not added.entry.is_ok
    if failures:
        sys.exit(1)


def _options(timeout: float | None, trace_processor: Path | None, *, again: bool) -> list[str]:
    """The options that the printed commands have too."""
    found = ["--again"] if again else []
    if timeout:
        found += ["--timeout", f"{timeout:g}"]
    if trace_processor:
        found += ["--trace-processor", str(trace_processor.absolute())]
    return found


def _executor(
    name: str | None, ray: str | None, jobs: int | None, timeout: float | None
) -> "Executor":
    if ray or name == _RAY:
        from traceql.runs.lake.executor.on_ray import OnRay

        return OnRay(ray or "auto", jobs, timeout)
    from traceql.runs.lake.executor.processes import Processes

    return Processes(jobs)


def _told(added: "Added") -> str:
    entry = added.entry
    if not entry.is_ok:
        named = (entry.error or "").startswith(f"{entry.source}: ")
        return f"failed: {entry.error if named else f'{entry.source}: {entry.error}'}"
    if not added.is_new:
        return f"nothing to do: {entry.run} is in the lake since {entry.added}"
    kernel = entry.tables.get("kernel")
    ranks = entry.about.ranks or 0
    counted = f"{ranks} {'rank' if ranks == 1 else 'ranks'}, {kernel.rows if kernel else 0:,}"
    return f"added: {entry.run}, {counted} device activities, {entry.size_bytes / 1e6:,.1f} MB"
