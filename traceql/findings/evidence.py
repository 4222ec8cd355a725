"""The command that shows what a finding says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def evidence_command(finding: Mapping[str, Any], database: str | Path) -> str:
    """From a row of overview.findings: `traceql run comm.stragglers run.duckdb --rank 3`."""
    options = "".join(f" --{name} {value}" for name, value in finding["parameters"].items())
    return f"traceql run {finding['query']} {database}{options}"
