"""Comparisons of real runs, and rows of their tables."""

from collections.abc import Mapping
from typing import Any

import databases
from scaled_runs import run

from traceql.runs.compare import Comparison

PLANTED = databases.ROOT / "tests" / "data" / "planted"
TRACES = databases.ROOT / "tests" / "data" / "planted-traces"


def compared(base: str, new: str) -> Comparison:
    return Comparison([run(base)], [run(new)])


def waterfall(comparison: Comparison) -> dict[tuple[Any, ...], int]:
    """The difference of each part, by scope, part, role and cause."""
    return {
        (row["scope"], row["part"], row["role"], row["cause"]): row["delta_ns"]
        for row in comparison.table("SELECT * FROM waterfall")
    }


def total(comparison: Comparison) -> dict[tuple[Any, ...], int]:
    """The difference of the recordings, by stratum, kind of change, part, role and cause."""
    return {
        tuple(row[name] for name in ("stratum", "change", "part", "role", "cause")): row["delta_ns"]
        for row in comparison.table("SELECT * FROM total")
    }


def change(comparison: Comparison, scope: str | None, metric: str) -> Mapping[str, Any]:
    """One row of the table change."""
    (row,) = comparison.table(
        "SELECT * FROM change WHERE scope IS NOT DISTINCT FROM $scope AND metric = $metric",
        scope=scope,
        metric=metric,
    )
    return row
