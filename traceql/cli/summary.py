"""A short summary of a database: its contents, and whether its checks hold."""

from pathlib import Path

import click

from traceql.cli.console import print_table
from traceql.printable import printable
from traceql.trace import Trace

_COUNTS = """
    SELECT
        (SELECT COUNT(*) FROM slice) AS slices,
        (SELECT COUNT(*) FROM kernel) AS kernels,
        (SELECT COUNT(*) FROM step) AS steps,
        (SELECT COUNT(*) FROM trace) AS ranks,
        (SELECT MAX(world_size) FROM trace) AS world_size,
        COUNT(ok) AS checks,
        COUNT(*) FILTER (NOT ok) AS failed,
        100.0 * SUM(value) FILTER (check_name = 'time classified other')
        / NULLIF(SUM(total) FILTER (check_name = 'time classified other'), 0) AS other_pct
    FROM ledger
"""


def write_summary(database: Path) -> None:
    """Prints a line of counts and a line with the verdict of the ledger."""
    with Trace(database) as trace:
        (row,) = trace.sql(_COUNTS).rows()
        counts = (
            _number(row["slices"], "slice", "slices"),
            _number(row["kernels"], "GPU activity", "GPU activities"),
            _number(row["steps"], "step", "steps"),
        )
        ranks = f"{row['ranks']} of {_number(row['world_size'], 'rank', 'ranks')}"
        click.echo(printable(f"{database}: {', '.join((ranks, *counts))}"))
        if not row["slices"]:
            click.echo("! no events: was the profiler stopped before anything ran?")
        click.echo(_verdict(row["checks"], row["failed"], row["other_pct"]))
        if row["failed"]:
            print_table(trace.run("quality.ledger", failed=True))


def _number(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def _verdict(checks: int, failed: int, other_pct: float | None) -> str:
    other = "" if other_pct is None else f"; {other_pct:.2f}% of GPU time is unclassified (other)"
    if failed:
        return f"✗ ledger: {failed} of {checks} checks FAILED{other}"
    return f"✓ ledger: all {checks} checks hold, nothing was lost{other}"
