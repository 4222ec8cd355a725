"""traceql lake check"""

import sys

import click

from traceql.cli.console import print_text
from traceql.cli.lake.options import lake_option
from traceql.printable import one_line

_TOLD = {
    "missing": "is missing",
    "damaged": "is not as it was written",
    "stray": "belongs to no run",
    "row": "is damaged",
    "failed": "could not be loaded",
}


@click.command("check")
@lake_option
@click.option("--fast", is_flag=True, help="Compare the sizes of files alone, not their SHA-256.")
def command(lake: str, fast: bool) -> None:
    """Check that every file of a lake is there and unchanged; exit status 1 if not.

    It says of each problem what to do. Runs that could not be loaded are listed, and are no fault
    of the lake.
    """
    from traceql.lake.check import check_lake

    checked = check_lake(lake, content=not fast)
    for one in checked.problems:
        mark = "✗" if one.is_fault else "!"
        print_text(one_line(f"{one.name} {_TOLD[one.kind]}: {one.advice}"), before=f"{mark} ")
    size = f"{checked.size_bytes / 1e6:,.1f} MB"
    counted = f"{checked.runs:,} runs, {checked.files:,} files, {size}"
    click.echo(f"✓ {counted}: all there" if checked.ok else f"✗ {counted}")
    if not checked.ok:
        sys.exit(1)
