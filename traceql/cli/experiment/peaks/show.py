"""traceql experiment peaks show"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.console import print_table, print_text
from traceql.cli.experiment.peaks.readable import readable
from traceql.cli.output import require_csv, spreadsheet_option, wide_option
from traceql.util.printable import one_line

if TYPE_CHECKING:
    from traceql.database.loading.peaks_document import PeaksDocument
    from traceql.result import Result

_TABLES = (
    "matmul",
    "memory",
    "copies",
    "host",
    "collectives",
    "fit",
)  # of traceql.plan.limits.tables
_KEYS = (  # what stays longest on a narrow terminal
    "op",
    "ranks",
    "algorithm",
    "timing",
    "alpha µs",
    "bandwidth_gbps",
    "median_error_pct",
    "largest_error_pct",
)
_OF_A_SERIES = ("op", "ranks", "algorithm", "source")


@click.command("show")
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--table", "table", type=click.Choice(_TABLES), help="Show this one.  [default: all]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output format, written to stdout. Of all tables, csv and json are the rows of all, with "
    "the name of their table.",
)
@spreadsheet_option
@wide_option
def command(
    file: Path, table: str | None, format_: str, spreadsheet_safe: bool, wide: bool
) -> None:
    """Show all of a peaks.json, with bandwidths and fits.

    matmul: TFLOP/s by shape and type. memory: GB/s of reading and copying. copies: from each GPU to
    each other. host: between the host and GPUs. collectives: by size, with algorithm and bus
    bandwidth as nccl-tests defines them. fit: latency (alpha) and bandwidth, with the errors of the
    fit.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    from traceql.plan.limits.collective_time import peaks_file

    peaks = peaks_file(file)
    names = [table] if table else list(_TABLES)
    if format_ == "table":
        _print(peaks, names, wide=wide)
        return
    from traceql.cli.result_output import write_result

    rows = _rows(peaks, names)
    write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=False)


def _rows(peaks: "PeaksDocument", names: Sequence[str]) -> "Result":
    """The rows of one table; of several, with all columns of all and the name of the table."""
    from traceql.plan.limits.tables import TABLES

    if len(names) == 1:
        return _result(TABLES[names[0]](peaks))
    found = [{"table": name, **row} for name in names for row in TABLES[name](peaks)]
    columns = dict.fromkeys(column for row in found for column in row)
    return _result([{column: row.get(column) for column in columns} for row in found])


def _result(rows: list[dict[str, Any]]) -> "Result":
    import pyarrow as pa

    from traceql.result import Result

    return Result(pa.Table.from_pylist(rows))


def _print(peaks: "PeaksDocument", names: Sequence[str], *, wide: bool) -> None:
    from traceql.plan.limits.series import copy_matrices
    from traceql.plan.limits.tables import TABLES

    done = "imported" if peaks.sources and not peaks.products else "measured"
    print_text(one_line(f"{peaks.device_name}, {done} {peaks.measured}"), bold=True)
    for source in peaks.sources:
        told = [source.program, source.version, source.started]
        print_text(one_line(f"from {source.file}: {', '.join(filter(None, told))}"), hanging="  ")
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
            for way, same in groupby(rows, lambda row: tuple(row[key] for key in _OF_A_SERIES)):
                _print_rows(_title(*way), [_without_way(row) for row in same], wide=wide)
        else:
            _print_rows(_TITLES[name], rows, wide=wide)


_TITLES = {
    "matmul": "products of matrices (m x k times k x n)",
    "memory": "memory of the GPU",
    "host": "copies between host and GPUs",
    "fit": "fits: time = alpha + size x bus factor / bandwidth; errors are relative",
}


def _title(op: str, ranks: int, algorithm: str, source: str | None) -> str:
    return f"{op} among {ranks} GPUs, {algorithm}{f', {source}' if source else ''}"


def _without_way(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in _OF_A_SERIES}


def _print_rows(title: str, rows: list[dict[str, Any]], *, wide: bool) -> None:
    if rows:
        click.echo()
        print_text(one_line(title), bold=True)
        shown = _result([readable(row) for row in rows])
        print_table(shown, keys=_KEYS, wide=wide, all_columns="--wide shows all")
