"""The numbers of a comparison, each with its interval and verdict."""

import json
from collections.abc import Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from statistics import median, median_low

import duckdb
import pyarrow as pa
import pyarrow.json as pj

from traceql.runs.compare.verdict import Judged, Verdict, judged

_MORE_IS_BETTER = {"tokens_per_second"}
_MOST_OTHER_TOKENS = 0.1  # relative; beyond it, steps of the two sides do other work
HAS_WAIT = "it includes waiting for ranks that are not loaded"
SCHEMA = pa.schema({
    "scope": "string", "metric": "string", "kind": "string", "base": "float64", "new": "float64",
    "unit": "string", "change_pct": "float64", "low_pct": "float64", "high_pct": "float64",
    "percent_of": "string", "p": "float64", "verdict": "string", "reason": "string",
    "runs_needed": "int64", "base_spread_pct": "float64", "new_spread_pct": "float64",
    "step_noise_pct": "float64", "base_kernels": "float64", "new_kernels": "float64",
    # One value for each run.
    "base_values": pa.list_(pa.float64()), "new_values": pa.list_(pa.float64()),
})  # fmt: skip
_VALUES = """
    SELECT
        scope, metric, kind, side, LIST(ns ORDER BY run), LIST(kernels ORDER BY run),
        median(mad_ns), BOOL_OR(has_wait)
    FROM run_value
    GROUP BY scope, metric, kind, side
"""
_LATENCIES = "SELECT metric, side, LIST(value ORDER BY run) FROM latency GROUP BY metric, side"
_RUNS = "SELECT side, COUNT(DISTINCT run) FROM profile_fact GROUP BY side"
# The smaller and the larger number of tokens of each size, summed over sizes, so that sizes with
# more and with fewer tokens do not cancel.
_TOKENS = """
    SELECT
        scope,
        SUM(steps * base_tokens ORDER BY stratum),
        SUM(steps * new_tokens ORDER BY stratum),
        SUM(steps * LEAST(base_tokens, new_tokens) ORDER BY stratum),
        SUM(steps * GREATEST(base_tokens, new_tokens) ORDER BY stratum)
    FROM weight
    INNER JOIN stratum USING (stratum)
    GROUP BY scope
"""


def table_of(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """A table of rows with a value for each column; reading JSON does not import pandas."""
    # A file without rows cannot be read.
    lines = [json.dumps(row, allow_nan=False) for row in rows or [dict.fromkeys(schema.names)]]
    text = "\n".join(lines).encode()
    read = pj.read_json(
        BytesIO(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text)),
        parse_options=pj.ParseOptions(explicit_schema=schema),
    )
    return read.slice(0, len(rows))


@dataclass(frozen=True)
class _Values:
    """A metric of one side for each run, which may include waiting that a run cannot separate."""

    ns: tuple[float, ...]
    kernels: tuple[float, ...] | None
    mad_ns: float | None
    has_wait: bool = False


_Key = tuple[str, str, str]  # scope, metric, kind
_Sides = dict[str, _Values]  # base, new, and whole: the steps of both


class Judge:
    """Judges metrics; steps of a scope that process other numbers of tokens have no verdict.

    Args:
        con: a connection to the tables of a comparison.
        threshold: the smallest change that counts, relative.
        forbidden: why there can be no verdict at all.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, *, threshold: float, forbidden: str) -> None:
        self._threshold, self._forbidden = threshold, forbidden
        self._runs = dict(con.execute(_RUNS).fetchall())
        tokens = con.execute(_TOKENS).fetchall()
        self._other_work = {scope: _other_work(*counts) for scope, *counts in tokens}
        self._values = _values(con, self._runs)
        self._latencies: dict[str, dict[str, list[float]]] = {}
        for metric, side, values in con.execute(_LATENCIES).fetchall():
            self._latencies.setdefault(metric, {})[side] = values

    def changes(self) -> pa.Table:
        """The table change, from the tables run_value and latency."""
        values = _with_groups(self._values)
        rows = [self._row(*key, sides) for key, sides in values.items()]
        return table_of([*rows, *self._latency_rows()], SCHEMA)

    def together(self, scope: str, roles: Sequence[str]) -> dict[str, object] | None:
        found = [sides for role in roles if (sides := self._values.get((scope, role, "role")))]
        return self._row(scope, "+".join(roles), "group", _together(found)) if found else None

    def _row(self, scope: str, metric: str, kind: str, sides: _Sides) -> dict[str, object]:
        base, new = sides["base"], sides["new"]
        has_wait = HAS_WAIT if base.has_wait or new.has_wait else ""
        change = judged(
            base.ns,
            new.ns,
            whole=median(sides["whole"].ns),
            threshold=self._threshold,
            forbidden=self._forbidden or self._other_work.get(scope, "") or has_wait,
        )
        return _row(scope, metric, kind, "ns", change, base, new)

    def _latency_rows(self) -> Iterator[dict[str, object]]:
        for metric, sides in sorted(self._latencies.items()):
            if {side: len(values) for side, values in sides.items()} != self._runs:
                continue  # not every run has it
            base, new = (_Values(tuple(sides[side]), None, None) for side in ("base", "new"))
            is_rate = metric in _MORE_IS_BETTER
            change = judged(
                base.ns,
                new.ns,
                whole=(median(base.ns) + median(new.ns)) / 2,
                threshold=self._threshold,
                more_is_better=is_rate,
                forbidden=self._forbidden,
            )
            kind, unit = ("rate", "tokens/s") if is_rate else ("latency", "ns")
            yield _row(None, metric, kind, unit, change, base, new)


def _other_work(
    base: float | None, new: float | None, fewer: float | None, more: float | None
) -> str:
    """Why steps of the same size do other work: they process other numbers of tokens."""
    if not base or not new or not fewer or not more or more / fewer - 1 <= _MOST_OTHER_TOKENS:
        return ""
    if max(base, new) < more:
        return f"steps of the same size process up to {more / fewer - 1:.0%} more or fewer tokens"
    what = "more" if new > base else "fewer"
    return f"the steps of new process {abs(new / base - 1):.0%} {what} tokens"


def _values(con: duckdb.DuckDBPyConnection, runs: Mapping[str, int]) -> dict[_Key, _Sides]:
    """The values of each metric by side; runs without a metric have 0."""
    found: dict[_Key, _Sides] = {}
    for *key, side, ns, kernels, mad_ns, has_wait in con.execute(_VALUES).fetchall():
        zeros = (0.0,) * (runs[side] - len(ns))
        counts = (*kernels, *zeros) if key[-1] == "role" else None
        values = _Values((*ns, *zeros), counts, mad_ns, has_wait)
        found.setdefault((key[0], key[1], key[2]), {})[side] = values
    for (scope, _, kind), sides in found.items():
        for side in runs.keys() - sides.keys():
            zeros = (0.0,) * runs[side]
            sides[side] = _Values(zeros, zeros if kind == "role" else None, 0.0)
        steps = found[scope, "step", "whole"]  # each side counts as much as the other
        medians = tuple(median(steps[side].ns) for side in ("base", "new"))
        sides["whole"] = _Values(medians, None, None)
    return dict(sorted(found.items()))


def _with_groups(values: dict[_Key, _Sides]) -> dict[_Key, _Sides]:
    """Adds groups of roles that one side runs in one kernel."""
    groups: dict[_Key, _Sides] = {}
    for (scope, role, kind), sides in values.items():
        if kind != "role" or _has_kernels(sides["base"]) == _has_kernels(sides["new"]):
            continue
        for partner in _partners().get(role, ()):
            other = values.get((scope, partner, "role"))
            if other and _has_kernels(other["base"]) and _has_kernels(other["new"]):
                groups[scope, f"{role}+{partner}", "group"] = _together([sides, other])
                break
    return values | groups


def _together(roles: Sequence[_Sides]) -> _Sides:
    sums = {"whole": roles[0]["whole"]}
    for side in ("base", "new"):
        parts = [one[side] for one in roles]
        ns, kernels = (
            tuple(map(sum, zip(*columns, strict=True)))
            for columns in ([one.ns for one in parts], [one.kernels or () for one in parts])
        )
        sums[side] = _Values(ns, kernels, None, any(part.has_wait for part in parts))
    return sums


def _has_kernels(values: _Values) -> bool:
    return any(values.kernels or ())


@cache
def _partners() -> dict[str, list[str]]:
    """The roles that a kernel of another role may include, by the role that then has none."""
    found: dict[str, list[str]] = {}
    with (Path(__file__).parent / "fused.csv").open(encoding="utf-8", newline="") as file:
        for row in DictReader(file):
            found.setdefault(row["role"], []).append(row["partner"])
    return found


def _row(
    scope: str | None,
    metric: str,
    kind: str,
    unit: str,
    change: Judged,
    base: _Values,
    new: _Values,
) -> dict[str, object]:
    verdict, shift = change.verdict, change.shift
    if kind == "role" and _has_kernels(base) != _has_kernels(new):
        verdict = Verdict.GONE if _has_kernels(base) else Verdict.NEW
    return {
        "scope": scope,
        "metric": metric,
        "kind": kind,
        "base": change.base,
        "new": change.new,
        "unit": unit,
        "change_pct": 100 * shift.estimate,
        "low_pct": None if shift.low is None else 100 * shift.low,
        "high_pct": None if shift.high is None else 100 * shift.high,
        "percent_of": "itself" if shift.is_ratio else "step",
        "p": shift.p,
        "verdict": str(verdict),
        "reason": change.reason,
        "runs_needed": change.runs,
        "base_spread_pct": _spread_pct(base.ns),
        "new_spread_pct": _spread_pct(new.ns),
        "step_noise_pct": (
            100 * base.mad_ns / change.base if base.mad_ns is not None and change.base > 0 else None
        ),
        "base_kernels": base.kernels and median_low(base.kernels),
        "new_kernels": new.kernels and median_low(new.kernels),
        "base_values": base.ns,
        "new_values": new.ns,
    }


def _spread_pct(values: Sequence[float]) -> float | None:
    """(greatest - least) / least value of the runs."""
    if len(values) < 2 or min(values) <= 0:
        return None
    return 100 * (max(values) / min(values) - 1)
