"""traceql experiment load, show and report"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.options import (
    PATH,
    OutputFormat,
    Selection,
    output_option,
    selection_options,
    validate_chart_file,
)
from traceql.cli.output import (
    print_status,
    print_table,
    print_text,
    print_warning,
    write_query_list,
    write_result,
)
from traceql.errors import TraceqlError

if TYPE_CHECKING:
    from traceql.runs.experiment import Experiment
    from traceql.sql.query import Query

_POINTS, _FAILURES = "points", "failures"


@click.command()
@click.argument("results", nargs=-1, required=True, type=PATH)
@output_option(
    required=True, help="Database file, such as results.duckdb. If it exists, it is replaced."
)
def load(results: tuple[Path, ...], output: Path) -> None:
    """Load the results of one experiment or several into one DuckDB file.

    RESULTS are folders of traceql experiment run, complete, stopped or still running. The database
    has every point and repeat of the plan: complete, failed, missing or skipped. The traces of
    profiled points are loaded too, which takes seconds for each.
    """
    from traceql.runs.experiment.experiment import load_experiments

    load_experiments(list(results), output, say=print_status, warn=print_warning)
    print_status(f"wrote {output}; next: traceql experiment show {output}")


@click.command()
@click.argument("results", nargs=-1, type=PATH)
@selection_options(
    sql="Its tables are experiment, point, repeat, measurement, point_value, start, fit, "
    "fit_point, speedup, and profile_... of profiled points.",
    json="the rows of the query points",
)
@click.option(
    "--chart",
    "chart_file",
    type=PATH,
    help="Write the chart of --query to this file (.html, .png or .svg).",
)
def show(
    results: tuple[Path, ...],
    selection: Selection,
    output_format: OutputFormat,
    chart_file: Path | None,
) -> None:
    """Show the results of an experiment: the answer, the points, the failures.

    RESULTS is a database of traceql experiment load, or folders of results, whose profiled points
    are loaded first.
    """
    from traceql.runs.experiment import experiment
    from traceql.runs.experiment.experiment import experiment_queries

    queries = experiment_queries()
    if selection.is_list:
        write_query_list(queries, output_format)
        return
    if not results:
        raise click.UsageError("name a folder of results, or their database")
    if chart_file and selection.query is None:
        raise click.UsageError("--chart needs --query; --query list shows which have a chart")
    validate_chart_file(chart_file)
    if selection.parameters and selection.query is None:
        raise click.UsageError("--param needs --query; --query list shows the queries")
    query = queries.get(selection.query or "")
    if chart_file and query and query.head.chart is None:
        raise TraceqlError(f"'{query.name}' has no chart; --query list shows which have one")
    with experiment(*results, say=print_status, warn=print_warning) as opened:
        if output_format.name == "table" and not selection.is_given:
            _print_results(opened, queries, wide=output_format.wide)
            return
        rows = selection.rows(opened, default=_POINTS)
        if chart_file:
            rows.save_chart(chart_file)
            print_status(f"wrote {chart_file}")
        else:
            write_result(rows, output_format)


def _print_results(opened: "Experiment", queries: "Mapping[str, Query]", *, wide: bool) -> None:
    from traceql.runs.experiment.sentences import answers

    for sentence in answers(opened):
        print_text(sentence.text, before="! " if sentence.warns else "  ")
    for name in (_POINTS, _FAILURES):
        rows = opened.query(name)
        if len(rows):
            click.echo()
            click.secho(f"  {queries[name].head.summary}", bold=True)
            more = f"traceql experiment show {opened.name} --wide shows all"
            print_table(rows, keys=queries[name].head.keys, wide=wide, all_columns=more)
    click.echo()
    click.echo(f"  traceql experiment report {opened.name}   one page with all curves")
    click.echo(f"  traceql experiment show {opened.name} --query list")


@click.command()
@click.argument("results", nargs=-1, required=True, type=PATH)
@output_option(default="experiment.html", help="HTML file to write.")
def report(results: tuple[Path, ...], output: Path) -> None:
    """Write a self-contained HTML page: question, answer, curves, parts, failures, set-up.

    RESULTS is a database of traceql experiment load, or folders of results.
    """
    from traceql.present.report.query_pages import write_experiment
    from traceql.runs.experiment import experiment

    with experiment(*results, say=print_status, warn=print_warning) as opened:
        write_experiment(opened, output)
    print_status(f"wrote {output}")
