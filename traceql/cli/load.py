"""traceql load"""

from pathlib import Path

import click

from traceql.cli.progress import progress
from traceql.cli.summary import write_summary, write_warnings
from traceql.database.database import Database
from traceql.util.printable import one_line
from traceql.util.without_pandas import leave_out_pandas

_INPUT = click.Path(path_type=Path, readable=False)  # loading says what it cannot read, in one line


@click.command("load")
@click.argument("paths", nargs=-1, required=True, type=_INPUT)
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
    help="Native trace_processor_shell to use instead of the bundled trace processor "
    "(also: TRACEQL_TRACE_PROCESSOR).",
)
@click.option(
    "--rules",
    multiple=True,
    type=_INPUT,
    help="CSV file with your own classification rules: priority, pattern, category.",
)
@click.option(
    "--model-config",
    type=_INPUT,
    help="The model's config.json, to check the recognized layers against, and for the sizes of "
    "all-reduces.  [default: run.json beside the traces, if any]",
)
@click.option(
    "--peaks",
    multiple=True,
    type=_INPUT,
    help="What the GPUs can reach: a peaks.json of traceql experiment peaks, or a CSV file with "
    "own rows: device, dtype, tflops, hbm_gbps, link_gbps, l2_mib, memory_gb, kernel_ns, source.  "
    "[default: data sheets, and peaks.json in the run directory, if any]",
)
@click.option(
    "--mix-profilers",
    is_flag=True,
    help="Load ranks of one run that were recorded by different profilers.",
)
@click.option(
    "--reader",
    type=click.Choice(["auto", "perfetto", "stream"]),
    default="auto",
    show_default=True,
    help="How to read JSON traces: perfetto has Perfetto's trace processor nest the events of a "
    "file at once, stream reads it section by section in bounded memory, auto streams from "
    "400 MiB of JSON on. The tables are the same.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="How much memory to use, about, such as 4GB; what does not fit goes to disk beside the "
    "output.  [default: half of the machine's or the container's]",
)
@click.option(
    "--complete",
    is_flag=True,
    help="Make all tables now, for programs that open the file with DuckDB. By default a load "
    "makes those that most questions need; the others are made when a query first needs them.",
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
    peaks: tuple[Path, ...],
    mix_profilers: bool,
    reader: str,
    memory: str | None,
    jobs: int | None,
    complete: bool,
) -> None:
    """Load traces, profiles, folders of these or run directories into one DuckDB file.

    PATHS are PyTorch profiler traces (.json, CUDA or ROCm), native Perfetto traces (.pftrace,
    .perfetto-trace), exports of Nsight Systems (.sqlite, Parquet; .nsys-rep where nsys is
    installed), outputs of rocprofv3 (.db, .json, .csv, .pftrace) or profiles of Ascend NPUs
    (*_ascend_pt, trace_view.json, .db), also compressed (.gz), folders of these, or run
    directories of traceql capture. Profiles of Nsight Compute (.csv of ncu --csv, .ncu-rep) add
    hardware counters to the kernels. Use one database per run.

    Failed checks of the ledger are printed, but the exit status is 0; see traceql check.
    """
    leave_out_pandas()
    from traceql.database.loading.load import load

    with progress() as done:
        loaded = load(
            paths,
            output,
            trace_processor=trace_processor,
            rules=rules,
            model_config=model_config,
            peaks=peaks,
            mix_profilers=mix_profilers,
            reader=reader,
            memory=memory,
            jobs=jobs,
            complete=complete,
            done=done,
        )
    for path in loaded.skipped:
        click.echo(one_line(f"skipped: already loaded: {path}"), err=True)
    for other in loaded.others:
        click.echo(one_line(f"skipped: {other}"), err=True)
    with Database(loaded.database) as trace:
        write_summary(trace, loaded.database)
        write_warnings(trace)
