"""What costs most, ahead of everything else that a command shows."""

from pathlib import Path

import click

from traceql.findings.evidence import evidence_command
from traceql.trace import Trace

_MARKS = {"severe": "✗", "notable": "!"}


def write_findings(trace: Trace, database: Path) -> None:
    """A sentence for each finding, with the command that shows it and what to try."""
    findings = trace.run("overview.findings").rows()
    if not findings:
        click.echo("✓ no findings: nothing costs more than the thresholds of finding_rule")
    for row in findings:
        click.secho(f"{_MARKS[row['severity']]} {row['finding']}", bold=True)
        click.echo(f"    see  {evidence_command(row, database)}")
        click.echo(f"    try  {row['advice']}")
