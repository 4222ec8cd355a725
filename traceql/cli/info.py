"""traceql info"""

from pathlib import Path
from shlex import quote

import click

from traceql.cli.console import print_command, print_table, print_text
from traceql.cli.findings import write_findings
from traceql.cli.output import format_option, print_answer, require_csv, write_rows
from traceql.cli.summary import write_run, write_summary
from traceql.database.database import Database
from traceql.sql.query import bound, query_named
from traceql.util.printable import one_line

_FILES = "SELECT rank, path, format, reader, size_bytes FROM trace ORDER BY rank"
_PROFILES = """
    SELECT parse_filename(path) AS profile, page, COUNT(*) AS launches, size_bytes
    FROM profile_file
    INNER JOIN profiled_launch ON profile_file.id = profiled_launch.file_id
    GROUP BY profile_file.id, path, page, size_bytes
    ORDER BY profile_file.id
"""
_MODELS = """
    SELECT
        rank,
        CASE
            WHEN family IS NULL THEN 'unknown (roles by place)'
            WHEN EXISTS (FROM model_config) THEN family
            ELSE family || ' (fits best)'
        END AS "model family",
        layers,
        CASE confirmed
            WHEN 1 THEN '1 complete forward pass'
            ELSE confirmed || ' complete forward passes'
        END AS "confirmed by"
    FROM rank_model
    ORDER BY rank
"""
# Ranks whose layers the order of their kernels does not tell, by the reason.
_WITHOUT_LAYERS = """
    WITH kernels AS (
        SELECT
            kernel.rank,
            COALESCE(BOOL_OR(list_contains(symbol.traits, 'anchors_layer')), FALSE) AS has_anchor
        FROM kernel
        LEFT JOIN symbol ON kernel.symbol = symbol.letter
        GROUP BY kernel.rank
    )
    SELECT
        string_agg(rank, ' ' ORDER BY rank) AS ranks,
        CASE
            WHEN has_anchor
                THEN 'no forward pass is complete, or not every layer writes a KV cache or a state'
            ELSE 'no kernel writes a KV cache or a state'
        END AS reason
    FROM kernels
    ANTI JOIN rank_model USING (rank)
    GROUP BY reason
    ORDER BY MIN(rank)
"""


@click.command("info")
@click.argument("database", type=click.Path(path_type=Path))
@format_option
def command(database: Path, format_: str, spreadsheet_safe: bool) -> None:
    """Show what ran, the findings, the contents of a database, and whether its ledger holds.

    The ledger compares what was in the trace files with what is in the database. Formats other than
    table write the rows of the ledger only.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    with Database(database) as trace:
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
        trace.make(("overview.recording", "overview.findings", "overview.run"))
        write_run(trace)
        click.echo()
        write_findings(trace, database)
        files = trace.select(_FILES)
        print_answer(trace, "overview.run" if len(files) else "ncu.profile")
        if len(models := trace.select(_MODELS)):
            print_table(models)
        for row in trace.select(_WITHOUT_LAYERS):
            print_text(f"No layers were found on rank {row['ranks']}: {row['reason']}.")
        if len(files):
            print_table(files)
        if len(profiles := trace.select(_PROFILES)):
            print_table(profiles)
        click.echo()
        write_summary(trace, database)
        checks = f"traceql run quality.ledger {quote(str(database))}"
        print_command(one_line(checks), before="    see  ")
