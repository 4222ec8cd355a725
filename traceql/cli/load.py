"""traceql load"""

from pathlib import Path

import click

from traceql.cli.progress import progress
from traceql.cli.summary import write_summary


@click.command("load")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="run.duckdb",
    show_default=True,
    help="Database file. If it exists, new files are added and loaded ones are skipped.",
)
@click.option(
    "--trace-processor",
    type=click.Path(path_type=Path),
    help="Native trace_processor_shell to use instead of the bundled engine "
    "(also: TRACEQL_TRACE_PROCESSOR).",
)
@click.option(
    "--rules",
    multiple=True,
    type=click.Path(path_type=Path),
    help="CSV file with your own classification rules: priority, pattern, category.",
)
@click.option(
    "--model-config",
    type=click.Path(path_type=Path),
    help="The model's config.json, to check the recognised layers against.  "
    "[default: run.json beside the traces, if any]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Number of files to read in parallel.  [default: number of CPUs]",
)
def command(
    paths: tuple[Path, ...],
    output: Path,
    trace_processor: Path | None,
    rules: tuple[Path, ...],
    model_config: Path | None,
    jobs: int | None,
) -> None:
    """Load trace files, folders of ranks or run directories into one DuckDB file.

    PATHS are PyTorch profiler traces (.json or .json.gz, CUDA or ROCm), native Perfetto traces
    (.pftrace, .perfetto-trace), or folders of these with one file per rank.
    """
    from traceql.loading.load import load

    with progress() as done:
        loaded = load(
            paths,
            output,
            trace_processor=trace_processor,
            rules=rules,
            model_config=model_config,
            jobs=jobs,
            done=done,
        )
    for path in loaded.skipped:
        click.echo(f"skipped: already loaded: {path}", err=True)
    for other in loaded.others:
        click.echo(f"skipped: not a trace: {other}", err=True)
    write_summary(loaded.database)
