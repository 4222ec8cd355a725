"""Runs of a history: baselines whose times are those of a bundled trace, made longer or shorter."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import databases
import pyarrow as pa
import pyarrow.compute as pc

from traceql.compare.baseline import save_baseline
from traceql.compare.profile import profile_of
from traceql.compare.sides import Run

EXAMPLE = "qwen3-8b-tp1-graph"
DAY_NS = 86_400 * 10**9
FIRST_NS = 1_790_000_000 * 10**9  # 2026-09-21 14:13 UTC

Profile = Mapping[str, pa.Table]


def example() -> Profile:
    return profile_of(databases.trace(EXAMPLE).path)


def with_facts(profile: Profile, **facts: str) -> Profile:
    """The run with other facts, in whose names a dot is written as two underscores."""
    fact = profile["fact"]
    known = {row["name"]: row["value"] for row in fact.to_pylist()}
    known |= {name.replace("__", "."): value for name, value in facts.items()}
    columns = {"name": sorted(known), "value": [known[name] for name in sorted(known)]}
    return {**profile, "fact": pa.table(columns, schema=fact.schema)}


def slower(profile: Profile, factor: float) -> Profile:
    """The run with all its times multiplied."""
    return {name: _slower(table, factor) for name, table in profile.items()}


def _slower(table: pa.Table, factor: float) -> pa.Table:
    for place, field in enumerate(table.schema):
        if field.name == "ns" or field.name.endswith("_ns"):
            times = pc.multiply(table[field.name].cast(pa.float64()), factor)
            whole = pa.types.is_integer(field.type)
            table = table.set_column(
                place, field, pc.round(times).cast(field.type) if whole else times
            )
    return table


def save(folder: Path, *profiles: Profile) -> None:
    """A baseline with a run of each profile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_baseline([Run(f"run{n}", None, one) for n, one in enumerate(profiles)], folder)


def save_history(folder: Path, factors: Sequence[float], profile: Profile | None = None) -> None:
    """A run a day, each on a commit of its own, in folders named by the day."""
    profile = profile or example()
    for day, factor in enumerate(factors):
        own = with_facts(
            slower(profile, factor),
            time__started_unix_ns=str(FIRST_NS + day * DAY_NS),
            git__commit=commit(day),
            git__branch="main",
            git__dirty="false",
        )
        save(folder / f"day-{day:03}" / "run", own)


def commit(number: int) -> str:
    return f"{number + 0xABC0:040x}"[::-1]
