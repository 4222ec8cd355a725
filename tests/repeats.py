"""Runs made of a bundled one: its profile with other times and facts; no GPU is needed for ten.

What a comparison needs of a run are small tables. Their times are multiplied, so that every run
is as consistent as a recorded one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa

from traceql.runs.compare import Comparison
from traceql.runs.compare.sides import RunProfile, profile_of, save_baseline
from traceql.runs.gate.criterion import criteria
from traceql.runs.gate.decision import Gate, Outcome, decide

EXAMPLE = "qwen3-8b-tp1-graph"
PLANTED = databases.ROOT / "tests" / "data" / "planted"
QUIET = (1.000, 1.002, 0.998, 1.001, 0.999)  # 0.4% from the fastest to the slowest run
OTHER_QUIET = (1.0005, 0.9985, 1.0015, 0.9995, 1.0025)
LOUD = (1.00, 1.04, 0.97, 1.02, 0.98)
OTHER_LOUD = (1.01, 1.03, 0.96, 1.05, 0.99)
SLOWER_DECODE = {"gate_up_proj": 1.12}  # the decode step takes 4% longer

Profile = Mapping[str, pa.Table]
_WHOLES = ("step", "interval", "busy", "computing")  # metrics that computing is a part of


@cache
def run(name: str) -> RunProfile:
    """A run of `databases`, as one side of a comparison."""
    path = databases.trace(name).path
    return RunProfile(name, path, profile_of(path))


def example() -> Profile:
    return run(EXAMPLE).profile


def with_facts(profile: Profile, facts: Mapping[str, str]) -> Profile:
    """The run with these facts in place of its own ones of the same names."""
    known = {row["name"]: row["value"] for row in profile["fact"].to_pylist()} | dict(facts)
    rows = [{"name": name, "value": value} for name, value in sorted(known.items())]
    return {**profile, "fact": with_rows(profile["fact"], rows)}


def with_rows(table: pa.Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=table.schema)


def scaled(profile: Profile, factor: float, roles: Mapping[str, float] = {}) -> Profile:
    """The run as if all its times were multiplied by a factor, and it were another recording.

    The times of roles are multiplied by theirs too; steps get longer by as much.
    """
    longer: dict[tuple[str, str], float] = defaultdict(float)  # ns, by grain and stratum
    for row in profile["metric"].to_pylist():
        longer[row["grain"], row["stratum"]] += row["ns"] * (roles.get(row["metric"], 1) - 1)
    tables = {name: _scaled(table, factor, roles, longer) for name, table in profile.items()}
    latencies = [
        row | {"value": row["value"] * factor ** (-1 if "per_second" in row["metric"] else 1)}
        for row in profile["latency"].to_pylist()
    ]
    tables["latency"] = with_rows(profile["latency"], latencies)
    return with_facts(tables, {"trace.sha256": f"{factor} {roles}"})


def _scaled(
    table: pa.Table,
    factor: float,
    roles: Mapping[str, float],
    longer: Mapping[tuple[str, str], float],
) -> pa.Table:
    times = [one for one in table.schema if one.name == "ns" or one.name.endswith("_ns")]
    rows = table.to_pylist()
    for row in rows:
        by = factor * roles.get(row.get("role") or row.get("metric"), 1)
        # How many whole steps its time is made of: none if it is a part of a step.
        steps = int(row.get("units", row.get("metric") in _WHOLES))
        added = longer[row["grain"], row["stratum"]] * steps if steps else 0
        for time in times:
            if row[time.name] is not None:
                value = by * (row[time.name] + (0 if time.name == "mad_ns" else added))
                row[time.name] = round(value) if pa.types.is_integer(time.type) else value
    return with_rows(table, rows)


def side(
    factors: Sequence[float] = QUIET,
    *,
    of: str = EXAMPLE,
    slower: float = 1.0,
    roles: Mapping[str, float] = {},
    facts: Mapping[str, str] = {},
    latencies: Mapping[str, float] = {},
    without: Sequence[str] = (),
    parts: Mapping[str, float] = {},
    name: str = "run",
) -> list[RunProfile]:
    """One run for each factor.

    Args:
        of: the run that they are made of.
        slower: what all times of the side are multiplied by.
        roles: what the times of roles are multiplied by; the steps get longer as well.
        facts: facts of the set-up, which replace those of the example.
        latencies: numbers that users see, ns, which get longer with the steps.
        without: phases that the runs do not have.
        parts: parts of a step, such as exposed_comm, as a share of the step.
    """
    rows = {
        name: [
            row
            for row in table.to_pylist()
            if str(row.get("stratum", "")).split(",")[0] not in without
        ]
        for name, table in run(of).profile.items()
    }
    rows["metric"] += [
        row | {"metric": part, "kind": "part", "ns": row["ns"] * share, "mad_ns": 0}
        for row in rows["metric"]
        if row["metric"] == "step"
        for part, share in parts.items()
    ]
    rows["latency"] += [
        {"metric": metric, "value": ns, "source": "profiled", "count": 10}
        for metric, ns in latencies.items()
    ]
    changed = {name: with_rows(table, rows[name]) for name, table in run(of).profile.items()}
    profile = with_facts(changed, facts)
    return [
        RunProfile(f"{name}{number}", run(of).database, scaled(profile, factor * slower, roles))
        for number, factor in enumerate(factors)
    ]


def saved(folder: Path, runs: Sequence[RunProfile]) -> Path:
    save_baseline(runs, folder)
    return folder


def change(comparison: Comparison, scope: str | None, metric: str) -> Mapping[str, Any]:
    """One row of the table change."""
    (row,) = comparison.table(
        "SELECT * FROM change WHERE scope IS NOT DISTINCT FROM $scope AND metric = $metric",
        scope=scope,
        metric=metric,
    )
    return row


def decided(
    base: Sequence[RunProfile], new: Sequence[RunProfile], *texts: str, accept: Sequence[str] = ()
) -> Gate:
    return decide(base, new, criteria(texts), accept=accept)


def outcome(base: Sequence[RunProfile], new: Sequence[RunProfile], criterion: str) -> Outcome:
    (found,) = decided(base, new, criterion).outcomes
    return found
