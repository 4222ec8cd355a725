"""traceql experiment peaks import and show"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.options import INPUT, OutputFormat, format_options, output_option
from traceql.cli.output import print_text, write_dicts
from traceql.util.text import one_line
from traceql.util.units import SIZE

if TYPE_CHECKING:
    from traceql.database.loading.inputs import PeaksDocument

_DEFAULT_BUFFER_MIB = 512  # of nvbandwidth 0.8
_TABLES = ("matmul", "memory", "copies", "host", "collectives", "fit")  # plan.limits.tables
_TITLES = {
    "matmul": "GEMM (m x k times k x n)",
    "memory": "GPU memory",
    "host": "copies between host and GPUs",
    "fit": "fits: time = alpha + size x bus factor / bandwidth; errors are relative",
}
_KEYS = (  # hidden last on a narrow terminal
    *("op", "ranks", "algorithm", "timing", "alpha µs", "bandwidth_gbps", "median_error_pct"),
    "largest_error_pct",
)
_SERIES = ("op", "ranks", "algorithm", "source")


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=INPUT, metavar="FILE...")
@output_option(required=True, help="File to write; may be the peaks.json among the FILEs.")
@click.option(
    "--buffer-mib",
    type=click.IntRange(1, 2**20),
    default=_DEFAULT_BUFFER_MIB,
    help="The --bufferSize of nvbandwidth, which its output does not include.",
)
def import_(files: tuple[Path, ...], output: Path, buffer_mib: int) -> None:
    """Convert output of nccl-tests and nvbandwidth to a peaks.json.

    FILE is the output of all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or
    sendrecv_perf with -J, or of nvbandwidth with -j. One FILE may be a peaks.json, which the others
    are added to.

    Example: traceql experiment peaks import all_reduce.json nvbandwidth.json -o peaks.json
    """
    from traceql.plan.limits.peaks_import import import_peaks, write_peaks

    document, left_out = import_peaks(files, buffer_mib=buffer_mib, now=datetime.now(UTC))
    write_peaks(output, document)
    for sentence in left_out:
        print_text(one_line(f"skipped: {sentence}"), hanging="  ", err=True)
    counts = ", ".join(
        f"{len(document.get(key, []))} {title}"
        for key, title in (
            ("products", "GEMMs"),
            ("memory", "memory tests"),
            ("collectives", "collectives and copies between GPUs"),
            ("host_copies", "copies of the host"),
        )
        if document.get(key)
    )
    click.echo(one_line(f"wrote {output}, {document['device_name']}: {counts}"))
    click.echo(one_line(f"next: traceql experiment peaks show {quote(str(output))}"))


@click.command()
@click.argument("file", type=INPUT)
@click.option("--table", type=click.Choice(_TABLES), help="Show only this table.  [default: all]")
@format_options(
    *("table", "csv", "json"),
    help_text="Output format, written to stdout. With several tables, csv and json have the rows "
    "of all, with the table in the first column.",
)
def show(file: Path, table: str | None, output_format: OutputFormat) -> None:
    """Show a peaks.json, with bandwidths and fits.

    matmul: TFLOP/s by shape and type. memory: GB/s of reading and copying. copies: between each
    pair of GPUs. host: between the host and GPUs. collectives: by size, with algorithm and bus
    bandwidth as nccl-tests defines them. fit: latency (alpha) and bandwidth, with the errors of the
    fit.
    """
    from traceql.plan.limits.collective_time import peaks_file
    from traceql.plan.limits.tables import TABLES

    peaks = peaks_file(file)
    if output_format.name == "table":
        _print_tables(peaks, [table] if table else _TABLES, wide=output_format.wide)
    elif table:
        write_dicts(TABLES[table](peaks), output_format)
    else:
        found = [{"table": name, **row} for name in _TABLES for row in TABLES[name](peaks)]
        columns = dict.fromkeys(column for row in found for column in row)
        write_dicts(
            [{column: row.get(column) for column in columns} for row in found], output_format
        )


def _print_tables(peaks: "PeaksDocument", names: Sequence[str], *, wide: bool) -> None:
    from traceql.plan.limits.tables import TABLES, copy_matrices

    origin = "imported" if peaks.sources and not peaks.products else "measured"
    print_text(one_line(f"{peaks.device_name}, {origin} {peaks.measured}"), bold=True)
    for source in peaks.sources:
        parts = filter(None, [source.program, source.version, source.started])
        print_text(one_line(f"from {source.file}: {', '.join(parts)}"), hanging="  ")
    for sentence in peaks.skipped:
        print_text(one_line(f"! {sentence}"), hanging="  ")
    for name in names:
        rows = TABLES[name](peaks)
        if not rows and len(names) == 1:
            print_text(f"no rows: {name} was neither measured nor imported", err=True)
        if name == "copies":
            for title, matrix in copy_matrices(peaks).items():
                _print_rows(f"copies between GPUs: {title}", matrix, wide=wide)
        elif name == "collectives":
            for series, same in groupby(rows, lambda row: tuple(row[key] for key in _SERIES)):
                op, ranks, algorithm, source = series
                title = f"{op} among {ranks} GPUs, {algorithm}{f', {source}' if source else ''}"
                others = [{key: row[key] for key in row if key not in _SERIES} for row in same]
                _print_rows(title, others, wide=wide)
        else:
            _print_rows(_TITLES[name], rows, wide=wide)


def _print_rows(title: str, rows: list[dict[str, Any]], *, wide: bool) -> None:
    if rows:
        click.echo()
        print_text(one_line(title), bold=True)
        cells = [dict(_readable(name, value) for name, value in row.items()) for row in rows]
        write_dicts(cells, OutputFormat("table", wide=wide), keys=_KEYS)


def _readable(name: str, value: Any) -> tuple[str, Any]:
    """A column with sizes as text, from KiB to GiB, or with times in microseconds."""
    if name == "bytes" or name.endswith("_bytes"):
        divisor = SIZE.divisor(value)
        size = f"{value / divisor:,.1f}".removesuffix(".0") + f" {SIZE.symbol(divisor)}"
        return name.removesuffix("_bytes").replace("bytes", "size"), size
    if name == "ns" or name.endswith("_ns"):
        time_us = None if value is None else value / 1e3
        return f"{name.removesuffix('ns').removesuffix('_') or 'time'} µs", time_us
    return name, value
