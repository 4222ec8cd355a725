"""Says of a large database what would be large or slow, and which options make it smaller."""

import click

from traceql.database.database import Database
from traceql.util.printable import one_line

# What docs/scale.md measures: from here on, the Perfetto UI or the report take minutes.
PERFETTO_SLICES = 3_000_000
REPORT_KERNELS = 2_000_000
_SMALLER = "--steps, --from and --to, or --sample take a part of the run"


def tell_if_large_file(trace: Database) -> None:
    """Says that an enriched trace of a database is too large for the Perfetto UI, if it is."""
    (row,) = trace.select("SELECT COUNT(*) AS slices FROM slice")
    if row["slices"] > PERFETTO_SLICES:
        _tell(f"{row['slices']:,} slices are too many for the Perfetto UI in a browser")


def tell_if_large_report(trace: Database) -> None:
    """Says that the report of a database takes long, if it does."""
    (row,) = trace.select("SELECT COUNT(*) AS kernels FROM kernel")
    if row["kernels"] > REPORT_KERNELS:
        _tell(f"a report on {row['kernels']:,} kernels takes minutes")


def _tell(what: str) -> None:
    click.echo(one_line(f"{what}; {_SMALLER}"), err=True)
