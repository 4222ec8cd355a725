"""traceql lake sql"""

import click

from traceql.cli.lake.options import format_option, lake_option, where_option
from traceql.cli.output import TableForm, spreadsheet_option, wide_option, write_stream
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
    from traceql.runs.lake.lake import Lake

    text = given_statement(statement)
    with Lake(lake) as opened:
        write_stream(
            lambda rows: opened.batches(text, rows=rows, where=where),
            format_=format_,
            spreadsheet_safe=spreadsheet_safe,
            table=TableForm(wide=wide),
        )
