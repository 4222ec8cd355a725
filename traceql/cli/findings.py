"""The findings: what costs the most time, printed ahead of everything else."""

from pathlib import Path
from shlex import quote

from traceql.analysis.findings.catalog import evidence_command, nothing_found, saving
from traceql.cli.console import print_command, print_text
from traceql.database.database import Database
from traceql.util.printable import one_line, shortened

_LONGEST = 1_000  # letters; a name in a trace may have any number of them
_MARKS = {"severe": "✗", "notable": "!"}


def write_findings(trace: Database, database: Path) -> None:
    """Prints each finding: the sentence, what it would save, the command that shows it, advice."""
    findings = trace.query("overview.findings").rows()
    if not findings:
        print_text(f"no findings: {nothing_found(trace)}", hanging="  ")
    for row in findings:
        print_text(_line(row["finding"]), before=f"{_MARKS[row['severity']]} ", bold=True)
        if row["saving_ns"] is not None:
            print_text(_line(saving(row)), before="    save ")
        print_command(_line(evidence_command(row, quote(str(database)))), before="    see  ")
        print_text(_line(row["advice"]), before="    try  ")


def _line(text: str) -> str:
    return shortened(one_line(text), _LONGEST)
