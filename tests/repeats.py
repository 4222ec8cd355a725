"""Sides of several repeats of the bundled example, whose times differ as noise does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaled_runs import EXAMPLE, Profile, example, run, scaled, with_facts, with_rows

from traceql.runs.compare.sides import RunProfile, save_baseline

QUIET = (1.000, 1.002, 0.998, 1.001, 0.999)  # 0.4% from the fastest to the slowest run
OTHER_QUIET = (1.0005, 0.9985, 1.0015, 0.9995, 1.0025)
LOUD = (1.00, 1.04, 0.97, 1.02, 0.98)
OTHER_LOUD = (1.01, 1.03, 0.96, 1.05, 0.99)


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
) -> list[RunProfile]:
    """One run for each factor.

    Args:
        slower: what all times of the side are multiplied by.
        roles: what the times of roles are multiplied by; the steps get longer as well.
        facts: facts of the set-up, which replace those of the example.
        latencies: numbers that users see, which get longer with the steps.
        without: phases that the runs do not have.
        parts: parts of a step, such as exposed_comm, as a share of the step.
    """
    profile = with_facts(_changed(latencies, without, parts), facts)
    return [
        RunProfile(
            f"{name}{number}", run(EXAMPLE).database, scaled(profile, factor * slower, roles)
        )
        for number, factor in enumerate(factors)
    ]


def saved(folder: Path, runs: Sequence[RunProfile]) -> Path:
    save_baseline(runs, folder)
    return folder


def _changed(
    latencies: Mapping[str, float], without: Sequence[str], parts: Mapping[str, float]
) -> Profile:
    """The example with other rows."""
    rows = {
        name: [
            row
            for row in table.to_pylist()
            if str(row.get("stratum", "")).split(",")[0] not in without
        ]
        for name, table in example().items()
    }
    rows["metric"] += list(_parts(rows["metric"], parts))
    rows["latency"] += [
        {"metric": metric, "value": ns, "source": "profiled", "count": 10}
        for metric, ns in latencies.items()
    ]
    return {name: with_rows(table, rows[name]) for name, table in example().items()}


def _parts(rows: Sequence[dict[str, Any]], parts: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["metric"] == "step":
            for name, share in parts.items():
                yield row | {"metric": name, "kind": "part", "ns": row["ns"] * share, "mad_ns": 0}
