"""Repeats of a bundled run: its profile with times that differ from run to run, as noise does.

What a comparison needs of a run are small tables. Their times are multiplied, so that every
repeat is as consistent as a recorded one, and no GPU is needed for ten of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa

from traceql.compare.baseline import save_baseline
from traceql.compare.profile import profile_of
from traceql.compare.sides import Run

EXAMPLE = "qwen3-8b-tp1-graph"
QUIET = (1.000, 1.002, 0.998, 1.001, 0.999)  # 0.4% from the fastest to the slowest run
OTHER_QUIET = (1.0005, 0.9985, 1.0015, 0.9995, 1.0025)
LOUD = (1.00, 1.04, 0.97, 1.02, 0.98)
OTHER_LOUD = (1.01, 1.03, 0.96, 1.05, 0.99)
_TIMES = ("ns", "mad_ns", "gpu_ns")
_WHOLES = ("step", "interval", "busy", "computing")


def side(
    factors: Sequence[float] = QUIET,
    *,
    slower: float = 1.0,
    roles: Mapping[str, float] = {},
    facts: Mapping[str, str] = {},
    latencies: Mapping[str, float] = {},
    without: Sequence[str] = (),
    parts: Mapping[str, float] = {},
    name: str = "run",
) -> list[Run]:
    """One run for each factor.

    Args:
        slower: what all times of the side are multiplied by.
        roles: what the times of roles are multiplied by; the steps get longer as well.
        facts: facts of the set-up, which replace those of the example.
        latencies: numbers that users see, which get longer with the steps.
        without: phases that the runs do not have.
        parts: parts of a step, such as exposed_comm, as a share of the step.
    """
    return [
        Run(
            f"{name}{number}",
            None,
            _changed(factor * slower, roles, facts, latencies, without, parts),
        )
        for number, factor in enumerate(factors)
    ]


def saved(folder: Path, runs: Sequence[Run]) -> Path:
    save_baseline(runs, folder)
    return folder


@cache
def _profile() -> Mapping[str, pa.Table]:
    path = databases.trace(EXAMPLE).path
    return profile_of(path)


def _changed(
    factor: float,
    roles: Mapping[str, float],
    facts: Mapping[str, str],
    latencies: Mapping[str, float],
    without: Sequence[str],
    parts: Mapping[str, float],
) -> dict[str, pa.Table]:
    longer = _longer(roles)
    tables = {}
    for name, table in _profile().items():
        rows = [
            _scaled(name, row, factor, roles, longer)
            for row in table.to_pylist()
            if str(row.get("stratum", "")).split(",")[0] not in without
        ]
        if name == "metric":
            rows += list(_parts(rows, parts))
        if name == "fact":
            known = {row["name"]: row["value"] for row in rows} | dict(facts)
            known["trace.sha256"] = f"{factor} {roles}"
            rows = [{"name": one, "value": value} for one, value in sorted(known.items())]
        if name == "latency":
            rows = [
                {"metric": row["metric"], "value": row["value"] / factor,
                 "source": row["source"], "count": row["count"]}
                for row in rows
            ] + [
                {"metric": metric, "value": ns * factor, "source": "profiled", "count": 10}
                for metric, ns in latencies.items()
            ]  # fmt: skip
        tables[name] = pa.Table.from_pylist(rows, schema=table.schema)
    return tables


def _longer(roles: Mapping[str, float]) -> dict[tuple[str, str], int]:
    """By how much steps of a stratum get longer because of roles, ns."""
    found: dict[tuple[str, str], int] = {}
    for row in _profile()["metric"].to_pylist():
        if row["kind"] == "role" and row["metric"] in roles:
            key = (row["grain"], row["stratum"])
            added = row["ns"] * (roles[row["metric"]] - 1)
            found[key] = found.get(key, 0) + round(added)
    return found


def _scaled(
    table: str,
    row: dict[str, Any],
    factor: float,
    roles: Mapping[str, float],
    longer: Mapping[tuple[str, str], int],
) -> dict[str, Any]:
    role = row.get("role") if table != "metric" else row["kind"] == "role" and row["metric"]
    own = factor * roles.get(role or "", 1)
    added = 0
    if table == "stratum" or (table == "metric" and row["metric"] in _WHOLES):
        added = longer.get((row.get("grain", ""), row.get("stratum", "")), 0)
        added *= row.get("units", 1)
    changed = {
        name: type(row[name])(round((row[name] + (added if name != "mad_ns" else 0)) * own))
        for name in _TIMES
        if row.get(name) is not None
    }
    return row | changed


def _parts(rows: Sequence[dict[str, Any]], parts: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["metric"] == "step":
            for name, share in parts.items():
                times = {time: round(row[time] * share) for time in ("ns",)}
                yield row | times | {"metric": name, "kind": "part", "mad_ns": 0}
