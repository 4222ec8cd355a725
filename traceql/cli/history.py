"""traceql history"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.console import print_table, print_text
from traceql.cli.output import require_csv, spreadsheet_option
from traceql.errors import TraceqlError
from traceql.util.printable import one_line, printable

if TYPE_CHECKING:
    from traceql.runs.history import History

_BY = ("time", "commit", "vllm-commit")
_SUFFIXES = (".html", ".png", ".svg")
_DEFAULT_THRESHOLD, _DEFAULT_LOOKBACK = 5.0, 100  # as traceql.runs.history.lookback


@click.command("history")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--by",
    type=click.Choice(_BY),
    default="time",
    show_default=True,
    help="What a point is: a run or a baseline, by its time; all runs of a commit, that of the "
    "folder where they were started; or all runs of a commit of vLLM.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="[PHASE.]METRIC",
    help="step, interval, a part of a step (exposed_comm, idle, idle.host ...) or a role, as "
    "decode.step; may be repeated.  [default: the steps of each phase]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, min_open=True),
    default=_DEFAULT_THRESHOLD,
    show_default=True,
    help="z-score from which on a point is marked.",
)
@click.option(
    "--lookback",
    type=click.IntRange(min=8),
    default=_DEFAULT_LOOKBACK,
    show_default=True,
    help="Most points that a point is compared with.",
)
@click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="A fact of the set-up that may differ in a series, as gpu.name or config; all for all.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write a page (.html) or a chart (.svg, .png) to this file instead of printing tables.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output format, written to stdout: a row for each series and point.",
)
@spreadsheet_option
def command(
    folder: Path,
    by: str,
    metrics: tuple[str, ...],
    threshold: float,
    lookback: int,
    accept: tuple[str, ...],
    output: Path | None,
    format_: str,
    spreadsheet_safe: bool,
) -> None:
    """Chart the runs of a folder over time or commits, and say since when they are slower.

    FOLDER holds databases, run directories of traceql capture and saved baselines, at any depth.
    Only runs that may be compared are in one series.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    if output and output.suffix.lower() not in _SUFFIXES:
        raise TraceqlError(f"cannot draw into '{output}'; its name must end in .html, .png or .svg")
    from traceql.cli.result_output import write_result
    from traceql.result import Result
    from traceql.runs.history import history

    found = history(
        folder,
        by=by,
        metrics=metrics,
        threshold=threshold,
        lookback=lookback,
        accept=accept,
        on_place=_say_that_it_is_read,
    )
    for reason in found.skipped:
        print_text(f"left out: {one_line(reason)}", hanging="  ", err=True)
    if output:
        _write(found, output, folder)
    elif format_ == "table":
        _print(found)
    else:
        rows = Result(found.arrow())
        write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=False)


def _say_that_it_is_read(place: Path) -> None:
    click.echo(printable(f"reading {place} ..."), err=True)


def _print(found: "History") -> None:
    from traceql.runs.history.folder import SHOWN

    for sentence, has_change in zip(found.sentences, found.has_change, strict=True):
        print_text(one_line(sentence), before="! " if has_change else "  ", bold=has_change)
    for number, title in enumerate(found.titles):
        click.echo()
        print_text(one_line(title), bold=True)
        print_table(found.of(number).select(list(SHOWN)), keys=("x", "median_ns", "z", "mark"))


def _write(found: "History", path: Path, folder: Path) -> None:
    from traceql.util.files import whole_file

    if path.suffix.lower() == ".html":
        from traceql.present.report.history import history_page

        with whole_file(path) as draft:  # a place that cannot be written is told before the work
            draft.write_bytes(history_page(found, folder.resolve().name).encode())
    else:
        found.save_chart(path)
    for sentence in found.sentences:
        print_text(one_line(sentence), err=True)
    click.echo(printable(f"wrote {path}"), err=True)
