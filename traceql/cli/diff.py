"""traceql diff"""

from pathlib import Path

import click

from traceql.cli.options import (
    PATH,
    OutputFormat,
    Selection,
    accept_option,
    base_and_new,
    selection_options,
    sides_arguments,
)
from traceql.cli.output import print_status, write_query_list, write_result


def percent(text: str) -> float:
    """A share such as 2% or 0.5%, as a fraction."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a percentage such as 2%") from None
    if not 0 <= share < 1:
        raise click.BadParameter(f"'{text}' is not between 0% and 100%")
    return share


@click.command()
@sides_arguments
@click.option(
    "--threshold",
    type=percent,
    default="1%",
    help="Ignore changes smaller than this.",
)
@accept_option
@click.option("--details", is_flag=True, help="Show every cause, layer, kernel and setting.")
@selection_options(
    sql="base.kernel is the table kernel of BASE, new.kernel that of NEW; the tables of the "
    "comparison have no prefix.",
    json="one document",
)
@click.option(
    "--chart",
    "chart_file",
    type=PATH,
    help="Write the chart of the difference, or of --query, to this file (.html, .png or .svg).",
)
@click.option(
    "--report",
    "report_file",
    type=PATH,
    help="Write a self-contained HTML page to this file.",
)
def diff(
    paths: tuple[Path, ...],
    base: tuple[Path, ...],
    new: tuple[Path, ...],
    threshold: float,
    accept: tuple[str, ...],
    details: bool,
    selection: Selection,
    output_format: OutputFormat,
    chart_file: Path | None,
    report_file: Path | None,
) -> None:
    """Compare two runs, or repeats of each: what changed, and is the change significant?

    Each side is a database, a run directory, a folder of traces, a trace or a saved baseline. In a
    folder of databases or of run directories, each is a repeat. A verdict needs at least 4 repeats
    (starts of the server) on each side, better 5; with fewer, differences have no verdict.
    """
    from traceql.runs.compare import Comparison, diff_queries
    from traceql.runs.compare.sides import groups_of

    if selection.is_list:
        write_query_list(diff_queries(), output_format)
        return
    groups = groups_of(base_and_new(paths, base, new), say=print_status)
    with Comparison(*groups, threshold=threshold, accept=accept) as comparison:
        if report_file:
            from traceql.present.report.query_pages import write_comparison

            write_comparison(comparison, report_file)
            print_status(f"wrote {report_file}")
        if chart_file:
            query = selection.query or "waterfall"
            comparison.query(query, **selection.parameters).save_chart(chart_file)
            print_status(f"wrote {chart_file}")
        if report_file or chart_file:
            return
        if output_format.name == "table" and not selection.is_given:
            from traceql.cli.diff_screen import print_comparison

            print_comparison(comparison, details=details)
        elif output_format.name == "json" and not selection.is_given:
            click.echo(comparison.document())
        else:
            write_result(selection.rows(comparison, default="answer"), output_format)
