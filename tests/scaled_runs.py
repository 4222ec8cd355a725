"""Runs made of a bundled one: its profile with other times and facts.

What a comparison needs of a run are small tables. Their times are multiplied, so that every run
is as consistent as a recorded one, and no GPU is needed for ten of them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import databases
import pyarrow as pa

from traceql.runs.compare.profile import profile_of
from traceql.runs.compare.sides import RunProfile

EXAMPLE = "qwen3-8b-tp1-graph"
Profile = Mapping[str, pa.Table]
_RATES = ("tokens_per_second",)
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
    """A table of the same columns."""
    return pa.Table.from_pylist(rows, schema=table.schema)


def scaled(profile: Profile, factor: float, roles: Mapping[str, float] = {}) -> Profile:
    """The run as if all its times were multiplied by a factor, and it were another recording.

    Args:
        roles: what the times of roles are multiplied by too; the steps get longer by as much.
    """
    longer = _longer(profile["metric"], roles)
    tables = {name: _scaled(table, factor, roles, longer) for name, table in profile.items()}
    latencies = [_scaled_latency(row, factor) for row in profile["latency"].to_pylist()]
    tables["latency"] = with_rows(profile["latency"], latencies)
    return with_facts(tables, {"trace.sha256": f"{factor} {roles}"})


def _longer(metric: pa.Table, roles: Mapping[str, float]) -> Mapping[tuple[str, str], float]:
    """By how much steps get longer because of roles, ns, by grain and stratum."""
    found: dict[tuple[str, str], float] = {}
    for row in metric.to_pylist():
        key = (row["grain"], row["stratum"])
        added = row["ns"] * (roles.get(row["metric"], 1) - 1)
        found[key] = found.get(key, 0) + added
    return found


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
        added = longer[row["grain"], row["stratum"]] * _steps(row) if _steps(row) else 0
        for time in times:
            if row[time.name] is not None:
                value = by * (row[time.name] + (0 if time.name == "mad_ns" else added))
                row[time.name] = round(value) if pa.types.is_integer(time.type) else value
    return with_rows(table, rows)


def _steps(row: Mapping[str, Any]) -> int:
    """How many whole steps the time of a row is made of: none if it is a part of a step."""
    return int(row.get("units", row.get("metric") in _WHOLES))


def _scaled_latency(row: Mapping[str, Any], factor: float) -> Mapping[str, Any]:
    return {**row, "value": row["value"] * (1 / factor if row["metric"] in _RATES else factor)}
