"""What is told of a finding beside its sentence: its saving, and the command for its details."""

from collections.abc import Mapping
from shlex import quote
from typing import Any


def evidence_command(finding: Mapping[str, Any], database: str) -> str:
    """The command for a row of overview.findings: `traceql run comm.stragglers DB --rank 3`.

    Args:
        database: as a shell reads it, perhaps with options.
    """
    options = "".join(f" --{name} {quote(value)}" for name, value in finding["parameters"].items())
    return f"traceql run {finding['query']} {database}{options}"


def saving(finding: Mapping[str, Any]) -> str:
    """What ending a finding would save: `up to 625.4 ms (29% of the run) if ...`."""
    return (
        f"up to {finding['saving_ns'] / 1e6:,.1f} ms ({finding['saving_pct']:.0f}% of the run) "
        f"{finding['assumption']}"
    )
