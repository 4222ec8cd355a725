"""traceql lake sql"""

import click

from traceql.cli.lake.options import format_option, lake_option, where_option
from traceql.cli.output import require_csv, spreadsheet_option, wide_option
from traceql.cli.result_output import write_result
from traceql.cli.sql import given_statement


@click.command("sql")
@click.argument("statement")
@lake_option
@where_option
@format_option
@spreadsheet_option
@wide_option
def command(
    statement: str,
    lake: str,
    where: str | None,
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
) -> None:
    """Run one SELECT, e.g. traceql lake sql "SELECT run, SUM(dur) FROM kernel GROUP BY run".

    Every table of a run is there, with a column run before the others, and lake_run has one row per
    run. If STATEMENT is -, it is read from stdin. A statement can neither write nor read files
    outside the lake.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    from traceql.lake.lake import Lake

    with Lake(lake) as opened:
        rows = opened.sql(given_statement(statement), where=where)
    write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)
