"""traceql lake check"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from traceql.cli.console import print_text
from traceql.cli.lake.options import lake_option
from traceql.util.printable import one_line

if TYPE_CHECKING:
    from traceql.runs.lake.maintenance import Problem

_MOST_OF_A_KIND = 5
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
    from traceql.runs.lake.maintenance import check_lake

    checked = check_lake(lake, content=not fast)
    for kind, told in _TOLD.items():
        _write([one for one in checked.problems if one.kind == kind], told)
    size = f"{checked.size_bytes / 1e6:,.1f} MB"
    counted = f"{checked.runs:,} runs, {checked.files:,} files, {size}"
    click.echo(f"✓ {counted}: all there" if checked.ok else f"✗ {counted}")
    if not checked.ok:
        sys.exit(1)


def _write(problems: "Sequence[Problem]", told: str) -> None:
    for one in problems[:_MOST_OF_A_KIND]:
        mark = "✗" if one.is_fault else "!"
        print_text(one_line(f"{one.name} {told}: {one.advice}"), before=f"{mark} ")
    if len(problems) > _MOST_OF_A_KIND:
        print_text(f"and {len(problems) - _MOST_OF_A_KIND:,} more", before="  ")
