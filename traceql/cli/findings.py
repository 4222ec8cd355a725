"""The findings: what costs the most time, printed ahead of everything else."""

from pathlib import Path

import click

from traceql.findings.evidence import evidence_command
from traceql.printable import one_line, shortened
from traceql.trace import Trace

_LONGEST = 1_000  # letters; a name in a trace may have any number of them
_MARKS = {"severe": "✗", "notable": "!"}


def write_findings(trace: Trace, database: Path) -> None:
    """Prints each finding as a sentence, with the command that shows its rows and what to try."""
    findings = trace.run("overview.findings").rows()
    if not findings:
        click.echo("✓ no findings: no number reaches its threshold (table finding_rule)")
    for row in findings:
        click.secho(_line(f"{_MARKS[row['severity']]} {row['finding']}"), bold=True)
        click.echo(f"    see  {_line(evidence_command(row, database))}")
        click.echo(f"    try  {_line(row['advice'])}")


def _line(text: str) -> str:
    return shortened(one_line(text), _LONGEST)
