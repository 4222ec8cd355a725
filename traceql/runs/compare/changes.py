"""The numbers of a comparison, each with its interval and verdict."""

from collections.abc import Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import duckdb
import pyarrow as pa

from traceql.runs.compare.python_tables import table_of
from traceql.runs.compare.verdict import Judged, Verdict, judged

_MORE_IS_BETTER = {"tokens_per_second"}
_MOST_OTHER_TOKENS = 0.1  # relative; beyond it, steps of the two sides do other work
HAS_WAIT = "it includes waiting for ranks that are not loaded"
SCHEMA = pa.schema(
    [
        ("scope", pa.string()),
        ("metric", pa.string()),
        ("kind", pa.string()),
        ("base", pa.float64()),
        ("new", pa.float64()),
        ("unit", pa.string()),
        ("change_pct", pa.float64()),
        ("low_pct", pa.float64()),
        ("high_pct", pa.float64()),
        ("percent_of", pa.string()),
        ("p", pa.float64()),
        ("verdict", pa.string()),
        ("reason", pa.string()),
        ("runs_needed", pa.int64()),
        ("base_spread_pct", pa.float64()),
        ("new_spread_pct", pa.float64()),
        ("step_noise_pct", pa.float64()),
        ("base_kernels", pa.float64()),
        ("new_kernels", pa.float64()),
        ("base_values", pa.list_(pa.float64())),  # one for each run
        ("new_values", pa.list_(pa.float64())),
    ]
)
_VALUES = """
    SELECT
        scope,
        metric,
        kind,
        side,
        LIST(ns ORDER BY run),
        LIST(kernels ORDER BY run),
        median(mad_ns),
        BOOL_OR(has_wait)
    FROM run_value
    GROUP BY scope, metric, kind, side
"""
_LATENCIES = """
    SELECT metric, side, LIST(value ORDER BY run)
    FROM latency
    GROUP BY metric, side
"""
_RUNS = "SELECT side, COUNT(DISTINCT run) FROM profile_fact GROUP BY side"
_TOKENS = """
    SELECT
        scope,
        SUM(steps * base_tokens ORDER BY stratum) AS base,
        SUM(steps * new_tokens ORDER BY stratum) AS new,
        SUM(steps * LEAST(base_tokens, new_tokens) ORDER BY stratum) AS fewer,
        SUM(steps * GREATEST(base_tokens, new_tokens) ORDER BY stratum) AS more
    FROM weight
    INNER JOIN stratum USING (stratum)
    GROUP BY scope
"""


@dataclass(frozen=True)
class _Values:
    """What the runs of a side have: one time, and one number of kernels, for each run.

    Attributes:
        has_wait: whether waiting is in it because a run does not tell it apart.
    """

    ns: tuple[float, ...]
    kernels: tuple[float, ...] | None
    mad_ns: float | None
    has_wait: bool = False


def changes(con: duckdb.DuckDBPyConnection, *, threshold: float, forbidden: str) -> pa.Table:
    """The table change, from the tables run_value and latency.

    Args:
        con: a connection to the tables of a comparison.
        threshold: the smallest change that counts, relative.
        forbidden: why there can be no verdict at all.
    """
    runs = dict(con.execute(_RUNS).fetchall())
    judge = _Judge(threshold, forbidden, _tokens(con))
    values = _with_groups(_values(con, runs))
    rows = [judge.row(*key, sides) for key, sides in values.items()]
    rows += _latencies(con, runs, threshold=threshold, forbidden=forbidden)
    return table_of(rows, SCHEMA)


def roles_together(
    con: duckdb.DuckDBPyConnection,
    scope: str,
    roles: Sequence[str],
    *,
    threshold: float,
    forbidden: str,
) -> dict[str, object] | None:
    """The row that several roles would have in table change as one; None if none of them runs.

    Args:
        con: a connection to the tables of a comparison.
    """
    values = _values(con, dict(con.execute(_RUNS).fetchall()))
    found = [sides for role in roles if (sides := values.get((scope, role, "role")))]
    if not found:
        return None
    judge = _Judge(threshold, forbidden, _tokens(con))
    return judge.row(scope, "+".join(roles), "group", _together(found))


def _tokens(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """What the tokens of steps forbid, by scope."""
    return {scope: _other_work(*counts) for scope, *counts in con.execute(_TOKENS).fetchall()}


@dataclass(frozen=True)
class _Judge:
    """How a verdict on times is found.

    Attributes:
        tokens: why the steps of a scope do other work.
    """

    threshold: float
    forbidden: str
    tokens: Mapping[str, str]

    def row(
        self, scope: str, metric: str, kind: str, sides: Mapping[str, "_Values"]
    ) -> dict[str, object]:
        base, new = sides["base"], sides["new"]
        told = judged(
            base.ns,
            new.ns,
            whole=median(sides["whole"].ns),
            threshold=self.threshold,
            forbidden=self.forbidden or self.tokens.get(scope, "") or _waiting(base, new),
        )
        return _row(scope, metric, kind, "ns", told, base, new)


def _waiting(base: _Values, new: _Values) -> str:
    return HAS_WAIT if base.has_wait or new.has_wait else ""


def _other_work(
    base: float | None, new: float | None, fewer: float | None, more: float | None
) -> str:
    """Whether steps of the same size process other numbers of tokens.

    Args:
        fewer: the tokens of the side with fewer, summed over sizes; more likewise. So a size with
            more tokens does not make up for one with fewer.
    """
    if not base or not new or not fewer or not more or more / fewer - 1 <= _MOST_OTHER_TOKENS:
        return ""
    if max(base, new) < more:
        return f"steps of the same size process up to {more / fewer - 1:.0%} more or fewer tokens"
    what = "more" if new > base else "fewer"
    return f"the steps of new process {abs(new / base - 1):.0%} {what} tokens"


_Key = tuple[str, str, str]


def _values(
    con: duckdb.DuckDBPyConnection, runs: Mapping[str, int]
) -> dict[_Key, dict[str, _Values]]:
    """The values by scope, metric and kind, and by side; runs without a metric have 0."""
    found: dict[_Key, dict[str, _Values]] = {}
    for scope, metric, kind, side, ns, kernels, mad_ns, has_wait in con.execute(_VALUES).fetchall():
        zeros = (0.0,) * (runs[side] - len(ns))
        counts = (*kernels, *zeros) if kind == "role" else None
        found.setdefault((scope, metric, kind), {})[side] = _Values(
            (*ns, *zeros), counts, mad_ns, has_wait
        )
    for (scope, _, kind), sides in found.items():
        for side in runs.keys() - sides.keys():
            zeros = (0.0,) * runs[side]
            sides[side] = _Values(zeros, zeros if kind == "role" else None, 0.0)
        sides["whole"] = _both(found[scope, "step", "whole"])
    return dict(sorted(found.items()))


def _both(steps: Mapping[str, _Values]) -> _Values:
    """The steps of both sides, each side counting as much as the other."""
    base, new = (median(steps[side].ns) for side in ("base", "new"))
    return _Values((base, new), None, None)


def _with_groups(values: dict[_Key, dict[str, _Values]]) -> dict[_Key, dict[str, _Values]]:
    """Adds groups of roles that one side runs in one kernel."""
    groups: dict[_Key, dict[str, _Values]] = {}
    for (scope, role, kind), sides in values.items():
        if kind != "role" or _is_on(sides, "base") == _is_on(sides, "new"):
            continue
        partner = next(
            (
                one
                for one in _partners().get(role, ())
                if (other := values.get((scope, one, "role")))
                and _is_on(other, "base")
                and _is_on(other, "new")
            ),
            None,
        )
        if partner:
            both = (sides, values[scope, partner, "role"])
            groups[scope, f"{role}+{partner}", "group"] = _together(both)
    return values | groups


def _together(roles: Sequence[Mapping[str, _Values]]) -> dict[str, _Values]:
    """Several roles as one."""
    sums = {side: _sum([one[side] for one in roles]) for side in ("base", "new")}
    return sums | {"whole": roles[0]["whole"]}


def _sum(parts: Sequence[_Values]) -> _Values:
    ns = tuple(sum(values) for values in zip(*(part.ns for part in parts), strict=True))
    counts = [part.kernels for part in parts if part.kernels is not None]
    kernels = tuple(sum(values) for values in zip(*counts, strict=True))
    return _Values(ns, kernels, None, any(part.has_wait for part in parts))


def _is_on(sides: Mapping[str, _Values], side: str) -> bool:
    return any(sides[side].kernels or ())


@cache
def _partners() -> dict[str, tuple[str, ...]]:
    """The roles that a kernel of another role may include, by the role that then has none."""
    with (Path(__file__).parent / "fused.csv").open(encoding="utf-8", newline="") as file:
        pairs = [(row["role"], row["partner"]) for row in DictReader(file)]
    return {role: tuple(other for one, other in pairs if one == role) for role, _ in pairs}


def _row(
    scope: str | None,
    metric: str,
    kind: str,
    unit: str,
    told: Judged,
    base: _Values,
    new: _Values,
) -> dict[str, object]:
    verdict = told.verdict
    if kind == "role" and any(base.kernels or ()) != any(new.kernels or ()):
        verdict = Verdict.GONE if any(base.kernels or ()) else Verdict.NEW
    found = told.shift
    return {
        "scope": scope,
        "metric": metric,
        "kind": kind,
        "base": told.base,
        "new": told.new,
        "unit": unit,
        "change_pct": 100 * found.estimate,
        "low_pct": None if found.low is None else 100 * found.low,
        "high_pct": None if found.high is None else 100 * found.high,
        "percent_of": "itself" if found.is_ratio else "step",
        "p": found.p,
        "verdict": str(verdict),
        "reason": told.reason,
        "runs_needed": told.runs,
        "base_spread_pct": _spread(base.ns),
        "new_spread_pct": _spread(new.ns),
        "step_noise_pct": _noise(base.mad_ns, told.base),
        "base_kernels": _middle(base.kernels),
        "new_kernels": _middle(new.kernels),
        "base_values": base.ns,
        "new_values": new.ns,
    }


def _noise(mad_ns: float | None, ns: float) -> float | None:
    return None if mad_ns is None or ns <= 0 else 100 * mad_ns / ns


def _spread(values: Sequence[float]) -> float | None:
    """From the least to the greatest value of the runs, in percent of the least."""
    if len(values) < 2 or min(values) <= 0:
        return None
    return 100 * (max(values) / min(values) - 1)


def _middle(values: Sequence[float] | None) -> float | None:
    return None if values is None else sorted(values)[(len(values) - 1) // 2]


def _latencies(
    con: duckdb.DuckDBPyConnection, runs: Mapping[str, int], *, threshold: float, forbidden: str
) -> Iterator[dict[str, object]]:
    found: dict[str, dict[str, list[float]]] = {}
    for metric, side, values in con.execute(_LATENCIES).fetchall():
        found.setdefault(metric, {})[side] = values
    for metric, sides in sorted(found.items()):
        if {side: len(values) for side, values in sides.items()} != runs:
            continue  # a run does not tell it
        base, new = (_Values(tuple(sides[side]), None, 0.0) for side in ("base", "new"))
        told = judged(
            base.ns,
            new.ns,
            whole=(median(base.ns) + median(new.ns)) / 2,
            threshold=threshold,
            more_is_better=metric in _MORE_IS_BETTER,
            forbidden=forbidden,
        )
        is_rate = metric in _MORE_IS_BETTER
        kind, unit = ("rate", "tokens/s") if is_rate else ("latency", "ns")
        yield _row(None, metric, kind, unit, told, base, new) | {"step_noise_pct": None}
