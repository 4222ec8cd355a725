"""traceql load and cut: the commands that write a database."""

from pathlib import Path
from typing import Any

import click

from traceql.cli.info import print_disjoint_recordings, print_summary
from traceql.cli.options import INPUT, PATH, Part, output_option, part_options
from traceql.cli.output import print_status
from traceql.cli.streams import load_progress
from traceql.database.database import Database
from traceql.util.process import hide_pandas


@click.command()
@click.argument("paths", nargs=-1, required=True, type=INPUT)
@output_option(
    default="run.duckdb",
    help="Database file. If it exists, new files are added and loaded ones are skipped.",
)
@click.option(
    "--trace-processor",
    type=PATH,
    help="Native trace_processor_shell to use instead of the bundled trace processor "
    "(or TRACEQL_TRACE_PROCESSOR).",
)
@click.option(
    "--rules",
    multiple=True,
    type=INPUT,
    help="CSV file of your own classification rules: priority, pattern, category. Replaces the "
    "rules of an earlier load.",
)
@click.option(
    "--model-config",
    type=INPUT,
    help="The model's config.json, to verify the layers and to compute the sizes of all-reduces.  "
    "[default: from run.json next to the traces, if any]",
)
@click.option(
    "--peaks",
    multiple=True,
    type=INPUT,
    help="Peaks of the GPUs: a peaks.json of traceql experiment peaks, or a CSV file with the "
    "columns device, dtype, tflops, hbm_gbps, link_gbps, l2_mib, memory_gb, kernel_ns, source.  "
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
    help="Reader of JSON traces: perfetto reads a whole file with Perfetto's trace processor, "
    "stream reads it in sections with bounded memory, auto streams from 400 MiB of JSON on. The "
    "tables are the same.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Approximate memory to use, such as 4GB; the rest goes to temporary files next to the "
    "output.  [default: half of the machine's or the container's]",
)
@click.option(
    "--complete",
    is_flag=True,
    help="Make all tables now, for programs that open the file with DuckDB. By default, load makes "
    "the common tables, and a query makes the others when it first needs them.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Number of files to read in parallel.  [default: number of CPUs]",
)
def load(paths: tuple[Path, ...], output: Path, **options: Any) -> None:
    """Load traces, profiles, folders of these or run directories into one DuckDB file.

    PATHS are PyTorch profiler traces (.json, CUDA or ROCm), native Perfetto traces (.pftrace,
    .perfetto-trace), exports of Nsight Systems (.sqlite, Parquet; .nsys-rep where nsys is
    installed), outputs of rocprofv3 (.db, .json, .csv, .pftrace) or profiles of Ascend NPUs
    (*_ascend_pt, trace_view.json, .db), also compressed (.gz), folders of these, or run
    directories of traceql capture. Profiles of Nsight Compute (.csv of ncu --csv, .ncu-rep) add
    hardware counters to the kernels. Use one database per run.

    Failed checks of the ledger are printed, but the exit status is 0.
    """
    hide_pandas()
    from traceql.database.loading.load import load as load_traces

    with load_progress() as done:
        loaded = load_traces(paths, output, **options, done=done)
    for path in loaded.skipped:
        print_status(f"skipped: already loaded: {path}")
    for other in loaded.others:
        print_status(f"skipped: {other}")
    for note in loaded.notes:
        print_status(note)
    with Database(loaded.database) as trace:
        print_summary(trace)
        print_disjoint_recordings(trace)


@click.command()
@click.argument("database", type=PATH)
@output_option(
    required=True,
    help="Database file to write. An existing excerpt is replaced, another database is not.",
)
@part_options
def cut(database: Path, output: Path, run_part: Part) -> None:
    """Extract part of a run into a smaller database: a time span, steps, or a sample.

    The output has the same tables, so all commands work on it; each prints which part of the run
    it has. Steps and layers are those of the whole run. A step that is only partly inside is left
    out, but its kernels are kept.
    """
    from traceql.database.excerpt import cut as cut_database

    choice = run_part.choice
    if choice is None:
        raise click.UsageError("choose a part: --from and --to, or --steps, or --sample")
    text = cut_database(database, output, choice)
    print_status(f"wrote {output}, {output.stat().st_size / 1e6:,.1f} MB: {text}")
