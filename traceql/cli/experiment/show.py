"""traceql experiment show"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.console import print_table, print_text
from traceql.cli.experiment.load import say, warn
from traceql.cli.named_queries import (
    LIST,
    asked_rows,
    list_queries,
    query_options,
    require_one,
)
from traceql.cli.output import require_csv
from traceql.errors import TraceqlError
from traceql.util.printable import printable

if TYPE_CHECKING:
    from traceql.runs.experiment import Experiment

_SUFFIXES = (".html", ".png", ".svg")
_SHOWN, _FAILURES = "points", "failures"


@click.command("show")
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@query_options(
    sql="Its tables are experiment, point, repeat, measurement, point_value, start, fit, "
    "fit_point, speedup, and profile_... of profiled points.",
    json="the rows of the query points",
)
@click.option(
    "--chart",
    "chart_file",
    type=click.Path(path_type=Path),
    help="Write the chart of --query to this file (.html, .png or .svg).",
)
def command(
    results: tuple[Path, ...],
    query: str | None,
    params: tuple[str, ...],
    sql: str | None,
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
    chart_file: Path | None,
) -> None:
    """Show what an experiment has found: the answer, the points, what failed.

    RESULTS is a database of traceql experiment load, or folders of results, whose profiled points
    are loaded first.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    require_one(query, sql)
    if query == LIST:
        from traceql.runs.experiment.experiment import experiment_queries

        found = experiment_queries()
        list_queries(found, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)
        return
    if not results:
        raise click.UsageError("name a folder of results, or their database")
    if chart_file and query is None:
        raise click.UsageError("--chart needs --query; --query list names those that have one")
    if chart_file and chart_file.suffix.lower() not in _SUFFIXES:
        ends = ", ".join(_SUFFIXES)
        raise TraceqlError(f"cannot draw into '{chart_file}'; its name must end in {ends}")
    if params and query is None:
        raise click.UsageError("--param needs --query; --query list names the queries")
    if chart_file and query:
        _require_chart(query)
    from traceql.runs.experiment import experiment

    with experiment(*results, say=say, warn=warn) as opened:
        if format_ == "table" and query is None and sql is None:
            _write_screen(opened, wide=wide)
            return
        rows = asked_rows(opened, query or (_SHOWN if sql is None else None), sql, params)
        if chart_file:
            rows.save_chart(chart_file)
            click.echo(printable(f"wrote {chart_file}"), err=True)
            return
        from traceql.cli.result_output import write_result

        write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)


def _require_chart(query: str) -> None:
    """Refuses a query without a chart, before anything is loaded."""
    from traceql.runs.experiment.experiment import experiment_queries

    known = experiment_queries().get(query)
    if known and known.head.chart is None:
        raise TraceqlError(f"'{query}' declares no chart; --query list names those that have one")


def _write_screen(opened: "Experiment", *, wide: bool) -> None:
    from traceql.runs.experiment.experiment import experiment_queries
    from traceql.runs.experiment.sentences import answers

    queries = experiment_queries()
    for sentence in answers(opened):
        print_text(sentence.text, before="! " if sentence.warns else "  ")
    for name in (_SHOWN, _FAILURES):
        rows = opened.query(name)
        if len(rows):
            click.echo()
            click.secho(f"  {queries[name].head.summary}", bold=True)
            more = f"traceql experiment show {opened.name} --wide shows all"
            print_table(rows, keys=queries[name].head.keys, wide=wide, all_columns=more)
    click.echo()
    click.echo(f"  traceql experiment report {opened.name}   one page with all curves")
    click.echo(f"  traceql experiment show {opened.name} --query list")
