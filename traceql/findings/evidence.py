"""The command line that shows the details of a finding."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any


def evidence_command(finding: Mapping[str, Any], database: str | Path) -> str:
    """The command for a row of overview.findings: `traceql run comm.stragglers DB --rank 3`."""
    options = "".join(f" --{name} {quote(value)}" for name, value in finding["parameters"].items())
    return f"traceql run {finding['query']} {quote(str(database))}{options}"
