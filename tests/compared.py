"""Sides of a comparison that were made up: the profile of a real run, with planted differences."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.compare import Comparison
from traceql.compare.sides import Run, runs_of

_TIMES = ("ns", "median_ns", "total_ns", "gpu_ns", "before_ns")


@cache
def run_of(database: Path) -> Run:
    (run,) = runs_of([database])
    return run


def repeats(
    database: Path, *, noise: float, seed: int, longer: Mapping[str, float] | None = None
) -> list[Run]:
    """Five runs that differ by noise alone, but for the roles and metrics that take longer."""
    generator = np.random.default_rng(seed)
    run = run_of(database)
    return [
        Run(
            f"repeat-{number}.duckdb",
            run.database,
            {
                name: _scaled(_own(table), 1 + noise * generator.standard_normal(), longer or {})
                for name, table in run.profile.items()
            },
        )
        for number in range(5)
    ]


def compared(database: Path, **longer: float) -> Comparison:
    """Five repeats of a run with five in which roles and metrics take longer, by these factors."""
    base = repeats(database, noise=0.001, seed=1)
    return Comparison(base, repeats(database, noise=0.001, seed=2, longer=longer))


def _own(table: pa.Table) -> pa.Table:
    """The facts without those that tell which recording it is."""
    if table.column_names[-2:] != ["name", "value"]:
        return table
    return table.filter(pc.not_equal(table["name"], "trace.sha256"))


def _scaled(table: pa.Table, factor: float, longer: Mapping[str, float]) -> pa.Table:
    keys = [table[name].to_pylist() for name in ("role", "metric") if name in table.column_names]
    own = [factor * longer.get(key, 1.0) for key in keys[0]] if keys else factor
    for place, name in enumerate(table.column_names):
        if name in _TIMES:
            kind = table.schema.field(name).type
            values = table[name].to_numpy(zero_copy_only=False).astype("float64") * np.array(own)
            rounded = np.round(values) if pa.types.is_integer(kind) else values
            table = table.set_column(place, name, pa.array(rounded, from_pandas=True).cast(kind))
    return table
