"""traceql info"""

from pathlib import Path

import click

from traceql.cli.findings import write_findings
from traceql.cli.output import format_option, write_result, write_table
from traceql.cli.summary import write_summary
from traceql.trace import Trace

_FILES = "SELECT rank, path, format, reader, size_bytes FROM trace ORDER BY rank"
_LEDGER = """
    SELECT
        rank,
        CASE ok WHEN TRUE THEN '✓' WHEN FALSE THEN '✗ FAILED' ELSE '' END AS "holds",
        "check",
        value,
        total,
        note
    FROM ledger
    ORDER BY ok IS DISTINCT FROM FALSE, rowid
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
