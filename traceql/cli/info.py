"""traceql info"""

from pathlib import Path

import click

from traceql.cli.console import print_table
from traceql.cli.findings import write_findings
from traceql.cli.output import format_option, require_csv, write_rows
from traceql.cli.summary import write_summary
from traceql.query import bound, query_named
from traceql.trace import Trace

_FILES = "SELECT rank, path, format, reader, size_bytes FROM trace ORDER BY rank"
# Failed checks have a row per rank; checks that hold are summed across ranks.
_LEDGER = """
    WITH numbered AS (
        SELECT *, CASE WHEN NOT ok THEN rank END AS failed_rank, rowid AS place FROM ledger
    )
    SELECT
        CASE WHEN ok THEN '✓' WHEN NOT ok THEN '✗ FAILED' ELSE '' END AS "holds",
        CASE
            WHEN COUNT(*) > 8 THEN COUNT(*) || ' ranks' ELSE string_agg(rank, ' ' ORDER BY rank)
        END AS ranks,
        check_name,
        -- Identifiers and clock readings must not be summed.
        CASE WHEN COUNT(*) = 1 OR check_name NOT IN ('rank of world size', 'clock shift', 'clock')
            THEN SUM(value) END AS value,
        CASE WHEN COUNT(*) = 1 OR check_name <> 'rank of world size' THEN SUM(total) END AS total,
        note
    FROM numbered
    GROUP BY ok, check_name, note, failed_rank
    ORDER BY ok IS DISTINCT FROM FALSE, MIN(place)
"""


@click.command("info")
@click.argument("database", type=click.Path(path_type=Path))
@format_option
def command(database: Path, format_: str, spreadsheet_safe: bool) -> None:
    """Show the findings, the contents of a database, and its ledger.

    The ledger compares what was in the trace files with what is in the database. Formats other than
    table write the rows of the ledger only.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    with Trace(database) as trace:
        if format_ != "table":
            ledger = query_named("quality.ledger", trace.queries)
            write_rows(
                trace,
                ledger.sql,
                bound(ledger, {}),
                format_=format_,
                spreadsheet_safe=spreadsheet_safe,
            )
            return
        write_findings(trace, database)
        click.echo()
        write_summary(database)
        print_table(trace.run("overview.run"))
        print_table(trace.sql(_FILES))
        print_table(trace.sql(_LEDGER))
