"""traceql history"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.options import (
    PATH,
    OutputFormat,
    format_options,
    output_option,
    validate_chart_file,
)
from traceql.cli.output import print_status, print_table, print_text
from traceql.util.text import one_line

if TYPE_CHECKING:
    from traceql.runs.history import History

_DEFAULT_THRESHOLD, _DEFAULT_LOOKBACK = 5.0, 100  # as traceql.runs.history.lookback


@click.command()
@click.argument("folder", type=PATH)
@click.option(
    "--by",
    type=click.Choice(("time", "commit", "vllm-commit")),
    default="time",
    help="A point is a run or a baseline, by time; all runs of a commit of the folder where they "
    "were started; or all runs of a commit of vLLM.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="[PHASE.]METRIC",
    help="step, interval, a part of a step (exposed_comm, idle, idle.host ...) or a role, such as "
    "decode.step. Repeatable.  [default: the steps of each phase]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, min_open=True),
    default=_DEFAULT_THRESHOLD,
    help="z-score from which a point is marked as a change.",
)
@click.option(
    "--lookback",
    type=click.IntRange(min=8),
    default=_DEFAULT_LOOKBACK,
    help="Maximum number of earlier points to compare a point with.",
)
@click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="Let this fact of the set-up differ within a series, such as gpu.name or config; all "
    "accepts every one.",
)
@output_option(
    help="Write a page (.html) or a chart (.svg, .png) to this file instead of printing tables."
)
@format_options(
    *("table", "csv", "json"),
    help_text="Output format, written to stdout: a row for each series and point.",
    wide=False,
)
def history(folder: Path, output: Path | None, output_format: OutputFormat, **options: Any) -> None:
    """Plot metrics over the runs of a folder, by time or commit, and detect regressions.

    FOLDER holds databases, run directories of traceql capture and saved baselines, at any depth.
    Only comparable runs are in one series.
    """
    validate_chart_file(output)
    from traceql.cli.output import write_result
    from traceql.result import Result
    from traceql.runs.history import history as history_of

    found = history_of(folder, **options, on_place=lambda path: print_status(f"reading {path} ..."))
    for reason in found.skipped:
        print_text(f"skipped: {one_line(reason)}", hanging="  ", err=True)
    if output:
        _write(found, output, folder)
    elif output_format.name == "table":
        from traceql.runs.history.run_history import SHOWN

        for sentence, has_change in zip(found.sentences, found.has_change, strict=True):
            print_text(one_line(sentence), before="! " if has_change else "  ", bold=has_change)
        for number, title in enumerate(found.titles):
            click.echo()
            print_text(one_line(title), bold=True)
            print_table(found.of(number).select(list(SHOWN)), keys=("x", "median_ns", "z", "mark"))
    else:
        write_result(Result(found.arrow()), output_format)


def _write(found: "History", path: Path, folder: Path) -> None:
    from traceql.util.files import atomic_write

    if path.suffix.lower() == ".html":
        from traceql.present.report.history import history_page

        with atomic_write(path) as draft:  # fails before the work if the path is not writable
            draft.write_bytes(history_page(found, folder.resolve().name).encode())
    else:
        found.save_chart(path)
    for sentence in found.sentences:
        print_text(one_line(sentence), err=True)
    print_status(f"wrote {path}")
