"""traceql lake run"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from traceql.cli.console import print_text
from traceql.cli.folders import queries_option
from traceql.cli.lake.options import format_option, lake_option, where_option
from traceql.cli.output import require_csv, spreadsheet_option, wide_option
from traceql.cli.query_group import QueryGroup, query_command
from traceql.cli.query_options import chart_option
from traceql.cli.result_output import write_result
from traceql.errors import TraceqlError
from traceql.result import Result
from traceql.runs.lake.lake import LISTED_BY, Lake, fleet_queries
from traceql.sql.query import Query, catalog
from traceql.util.printable import one_line, printable


class _Queries(QueryGroup):
    listed_by = LISTED_BY

    def sections(self, folders: Sequence[Path]) -> dict[str, dict[str, Query]]:
        return {"Queries of the fleet": fleet_queries(), "Queries of each run": catalog(folders)}

    def command_of(self, query: Query, folders: Sequence[Path]) -> click.Command:
        return _query_command(query, folders)


def _query_command(query: Query, folders: Sequence[Path]) -> click.Command:
    def run(
        lake: str,
        where: str | None,
        format_: str,
        spreadsheet_safe: bool,
        wide: bool,
        chart_file: Path | None,
        **parameters: Any,
    ) -> None:
        require_csv(format_, spreadsheet_safe=spreadsheet_safe)
        with Lake(lake, queries=folders) as opened:
            rows = opened.query(query.name, where=where, **parameters)
        if chart_file:
            _require_one_run(query, rows)
            rows.save_chart(chart_file)
            click.echo(printable(f"wrote {chart_file}: a chart of {len(rows):,} rows"), err=True)
        else:
            _write(query, rows, format_, spreadsheet_safe, wide)

    command = query_command(query, run)
    for add in (wide_option, spreadsheet_option, format_option, chart_option, where_option):
        command = add(command)
    return lake_option(command)


def _require_one_run(query: Query, rows: Result) -> None:
    """Refuses to draw the rows of several runs into a chart that is made for one."""
    if query.name in fleet_queries() or query.head.chart is None:
        return
    first, *others = dict.fromkeys(row["run"] for row in rows.select(["run"])) or [""]
    if others:
        raise TraceqlError(
            f"a chart of {query.name} shows one run; choose it with --where \"run = '{first}'\""
        )


def _write(query: Query, rows: Result, format_: str, spreadsheet_safe: bool, wide: bool) -> None:
    if not len(rows) and format_ == "table" and query.head.empty:
        print_text(one_line(f"no rows: {query.head.empty}"), err=True)
        return
    keys = ("run", *query.head.keys)
    write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide, keys=keys)


@click.command("run", cls=_Queries, invoke_without_command=True)
@queries_option
@click.pass_context
def command(ctx: click.Context, queries: tuple[Path, ...]) -> None:
    """Run a query over all runs of a lake, such as fleet.stragglers, or a query of each run.

    A query of each run, such as kernels.top, has the rows that it has for the run's own database,
    its --limit included, and the name of the run before them.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
