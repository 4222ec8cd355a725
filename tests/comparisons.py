"""Comparisons of real runs, and sides of several repeats made of one run."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import databases
import pyarrow as pa
import pyarrow.compute as pc

from traceql.compare import Comparison
from traceql.compare.profile import profile_of
from traceql.compare.sides import Run

if TYPE_CHECKING:
    from traceql.compare.profile import Profile

_TIMES = {
    "metric": ("ns", "mad_ns"),
    "typical_part": ("ns",),
    "layer": ("ns",),
    "kernel_use": ("ns",),
    "lost": ("ns",),
}
PLANTED = databases.ROOT / "tests" / "data" / "planted"
TRACES = databases.ROOT / "tests" / "data" / "planted-traces"


@cache
def run(name: str) -> Run:
    """A run of `databases`, as one side of a comparison."""
    path = databases.trace(name).path
    return Run(name, path, profile_of(path))


def compared(base: str, new: str) -> Comparison:
    return Comparison([run(base)], [run(new)])


def repeats(name: str, factors: Sequence[float], *, role: str = "", by: float = 1) -> list[Run]:
    """A repeat for each factor, which all times of the run are multiplied with.

    Args:
        role: whose times are multiplied with `by` too; the step gets longer by as much.
    """
    return [
        Run(f"{name} {number}", None, _scaled(run(name).profile, factor, role, by))
        for number, factor in enumerate(factors)
    ]


def _scaled(profile: "Profile", factor: float, role: str, by: float) -> "Profile":
    scaled = {
        name: _times(table, _TIMES[name], factor) if name in _TIMES else table
        for name, table in profile.items()
    }
    return {**scaled, "metric": _slower_role(scaled["metric"], role, by)} if role else scaled


def _times(table: pa.Table, columns: Sequence[str], factor: float) -> pa.Table:
    for column in columns:
        place = table.column_names.index(column)
        kind = table[column].type
        scaled = pc.multiply(table[column].cast(pa.float64()), factor)
        if pa.types.is_integer(kind):
            scaled = pc.round(scaled).cast(kind)
        table = table.set_column(place, column, scaled)
    return table


def _slower_role(metric: pa.Table, role: str, by: float) -> pa.Table:
    rows = metric.to_pylist()
    for row in rows:
        if row["metric"] == role:
            row["ns"] *= by
    return pa.Table.from_pylist(rows, schema=metric.schema)


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
