"""traceql info"""

from pathlib import Path

import click

from traceql.cli.findings import write_findings
from traceql.cli.output import format_option, write_result, write_table
from traceql.cli.summary import write_summary
from traceql.trace import Trace

_FILES = "SELECT rank, path, format, reader, size_bytes FROM trace ORDER BY rank"
# What failed, rank by rank; what holds on all ranks, summed.
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
        -- Numbers that say which, not how much, have no sum.
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
def command(database: Path, format_: str) -> None:
    """Show what costs most, what a database holds, and its ledger: what was in the files and what
    was kept.

    The other formats than table write the ledger's rows.
    """
    with Trace(database) as trace:
        if format_ != "table":
            write_result(trace.run("quality.ledger"), format_)
            return
        write_findings(trace, database)
        click.echo()
        write_summary(database)
        write_table(trace.run("overview.run"))
        write_table(trace.sql(_FILES))
        write_table(trace.sql(_LEDGER))
