"""traceql lake add, run, sql, check, compact and remove"""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.options import (
    PATH,
    ROW_FORMATS,
    TABLE_HELP,
    OutputFormat,
    chart_option,
    format_options,
    queries_option,
)
from traceql.cli.output import print_no_rows, print_status, print_text, write_result, write_stream
from traceql.cli.query import QueryGroup, query_command, statement_text
from traceql.cli.streams import Throughput
from traceql.errors import TraceqlError
from traceql.runs.lake.lake import LISTED_BY, Lake, fleet_queries
from traceql.sql.query import Query, catalog
from traceql.util.text import format_count, one_line

if TYPE_CHECKING:
    from traceql.runs.lake.add import Added

_lake_option = click.option(
    "--lake",
    required=True,
    metavar="DIR",
    envvar="TRACEQL_LAKE",
    show_envvar=True,
    help="Folder of the lake.",
)
_where_option = click.option(
    "--where",
    metavar="CONDITION",
    help="Only runs that match this SQL condition on table lake_run: \"model = 'qwen3-32b'\".",
)
_format_options = format_options(*ROW_FORMATS, help_text=TABLE_HELP)
_PROCESSES, _RAY, _PRINT = "processes", "ray", "print"
_MAX_PROBLEMS = 5  # printed of each kind
_PROBLEMS = {
    "missing": "is missing", "damaged": "has changed", "orphan": "belongs to no run",
    "row": "is damaged", "failed": "could not be loaded",
}  # fmt: skip


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@_lake_option
@click.option(
    "--executor",
    type=click.Choice([_PROCESSES, _RAY, _PRINT]),
    help="Where to load the runs: in processes of this machine, on a Ray cluster (extra ray), or "
    "nowhere: print a command for each run, for another scheduler.  [default: processes]",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Ray cluster, such as 10.0.0.1:6379, or auto for that of this machine. Implies --executor "
    "ray.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Runs loaded in parallel.  [default: limited by CPUs and memory]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Timeout per run.  [default: 600, plus 0.5 for each MB of its traces]",
)
@click.option(
    "--again",
    is_flag=True,
    help="Load runs again that are in the lake, as after an upgrade of traceql, and replace their "
    "rows.",
)
@click.option(
    "--trace-processor",
    type=PATH,
    help="Native trace_processor_shell to use instead of the bundled one.",
)
def add(
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
    directory, which is loaded first. Duplicates (by SHA-256 of the traces) are skipped. If a run
    cannot be loaded, the lake records its error, the other runs are added, and the exit status is
    1. Several of these commands may run at the same time.
    """
    if ray and executor not in (None, _RAY):
        raise click.UsageError(f"--ray is for --executor ray, not {executor}")
    if executor == _PRINT:
        _print_commands(runs, lake, timeout, trace_processor, again=again)
        return
    from traceql.runs.lake.executor import Processes
    from traceql.runs.lake.fan_out import add_runs
    from traceql.runs.lake.on_ray import OnRay

    on_ray = ray or executor == _RAY
    throughput = Throughput()
    failures = 0
    adding = add_runs(
        runs,
        lake,
        OnRay(ray or "auto", jobs, timeout) if on_ray else Processes(jobs),
        timeout_s=timeout,
        trace_processor=trace_processor,
        again=again,
        done=throughput.update,
    )
    with closing(adding):
        for added in adding:
            print_status(_format_added(added) + throughput.text())
            failures += not added.entry.is_ok
    if failures:
        sys.exit(1)


def _print_commands(
    runs: Sequence[Path],
    lake: str,
    timeout: float | None,
    trace_processor: Path | None,
    *,
    again: bool,
) -> None:
    from traceql.runs.lake.fan_out import commands

    options = ["--again"] if again else []
    options += ["--timeout", f"{timeout:g}"] if timeout else []
    options += ["--trace-processor", str(trace_processor.absolute())] if trace_processor else []
    for line in commands(runs, lake, *options):
        click.echo(line)


def _format_added(added: "Added") -> str:
    entry, source = added.entry, f"{added.entry.source}: "
    if not entry.is_ok:
        return f"failed: {source}{(entry.error or '').removeprefix(source)}"
    if not added.is_new:
        return f"skipped: {entry.run} was added on {entry.added}"
    kernel = entry.tables.get("kernel")
    ranks = format_count(entry.about.ranks or 0, "rank")
    activities = f"{kernel.rows if kernel else 0:,} device activities"
    return f"added: {entry.run}, {ranks}, {activities}, {entry.size_bytes / 1e6:,.1f} MB"


class _Queries(QueryGroup):
    listed_by = LISTED_BY

    def sections(self, folders: Sequence[Path]) -> dict[str, dict[str, Query]]:
        return {"Queries of the fleet": fleet_queries(), "Queries of each run": catalog(folders)}

    def command_of(self, query: Query, folders: Sequence[Path]) -> click.Command:
        @_lake_option
        @_where_option
        @chart_option
        @_format_options
        def run_query(
            lake: str,
            where: str | None,
            output_format: OutputFormat,
            chart_file: Path | None,
            **parameters: Any,
        ) -> None:
            with Lake(lake, queries=folders) as opened:
                rows = opened.query(query.name, where=where, **parameters)
            if chart_file:
                if query.name not in fleet_queries() and query.head.chart is not None:
                    first, *others = dict.fromkeys(one["run"] for one in rows.select(["run"])) or [
                        ""
                    ]
                    if others:
                        raise TraceqlError(
                            f"a chart of {query.name} shows one run; choose it with --where "
                            f"\"run = '{first}'\""
                        )
                rows.save_chart(chart_file)
                print_status(f"wrote {chart_file}: a chart of {len(rows):,} rows")
            elif not len(rows) and output_format.name == "table" and query.head.empty:
                print_no_rows(query.head.empty)
            else:
                write_result(rows, output_format, keys=("run", *query.head.keys))

        return query_command(query, run_query)


@click.command(cls=_Queries, invoke_without_command=True)
@queries_option
@click.pass_context
def run(ctx: click.Context, queries: tuple[Path, ...]) -> None:
    """Run a query across the runs of a lake, such as fleet.stragglers, or on each run.

    A query on each run, such as kernels.top, returns the same rows as on the run's own database
    (--limit is per run), with the name of the run in the first column.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command()
@click.argument("statement")
@_lake_option
@_where_option
@_format_options
def sql(statement: str, lake: str, where: str | None, output_format: OutputFormat) -> None:
    """Run one SELECT, e.g. traceql lake sql "SELECT run, SUM(dur) FROM kernel GROUP BY run".

    The tables are those of a run, with run as their first column, and lake_run, which has one row
    per run. If STATEMENT is -, it is read from stdin. The statement cannot write, and cannot read
    files outside the lake.
    """
    text = statement_text(statement)
    with Lake(lake) as opened:
        write_stream(lambda rows: opened.batches(text, rows=rows, where=where), output_format)


@click.command()
@_lake_option
@click.option("--fast", is_flag=True, help="Compare only the sizes of files, not their SHA-256.")
def check(lake: str, fast: bool) -> None:
    """Check that every file of a lake is present and unchanged; exit status 1 if not.

    Each problem is printed with its remedy. Runs that could not be loaded are listed, but do not
    fail the check.
    """
    from traceql.runs.lake.maintenance import check_lake

    checked = check_lake(lake, content=not fast)
    for kind, text in _PROBLEMS.items():
        problems = [problem for problem in checked.problems if problem.kind == kind]
        for problem in problems[:_MAX_PROBLEMS]:
            mark = "✗" if problem.is_fault else "!"
            print_text(one_line(f"{problem.name} {text}: {problem.advice}"), before=f"{mark} ")
        if len(problems) > _MAX_PROBLEMS:
            print_text(f"and {len(problems) - _MAX_PROBLEMS:,} more", before="  ")
    size = f"{checked.size_bytes / 1e6:,.1f} MB"
    counts = f"{checked.runs:,} runs, {checked.files:,} files, {size}"
    click.echo(f"✓ {counts}: all present" if checked.ok else f"✗ {counts}")
    if not checked.ok:
        sys.exit(1)


@click.command()
@_lake_option
@click.option(
    "--small",
    "small_mb",
    type=click.FloatRange(0, min_open=True),
    default=32,
    help="Merge files smaller than this many MiB.",
)
def compact(lake: str, small_mb: float) -> None:
    """Merge the small files of many runs into larger ones, and remove orphaned files.

    Results of queries stay the same; with many runs, they come faster. A query that runs at the
    same time may fail and has to be repeated.
    """
    from traceql.runs.lake.maintenance import compact as compact_lake

    done = compact_lake(lake, small_bytes=int(small_mb * 2**20))
    removed = f"; removed {done.orphans:,} that belonged to no run" if done.orphans else ""
    print_status(f"{done.before:,} files are now {done.after:,}{removed}")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_lake_option
def remove(runs: tuple[str, ...], lake: str) -> None:
    """Remove runs from a lake, by the names that fleet.runs lists."""
    from traceql.runs.lake.maintenance import remove_runs

    for entry in remove_runs(lake, runs):
        print_status(f"removed: {entry.run}")
