"""Which criteria can be decided: their numbers on both sides, and obstacles to a comparison."""

from collections.abc import Sequence
from typing import Any

from traceql.runs.compare.comparison import SIDES, Comparison
from traceql.runs.compare.sentences import LEAST_COMPARED_PCT
from traceql.runs.gate.criterion import ALL_PHASES, Criterion

_NOT_COMPARABLE = "not comparable"  # the verdict of table change
_KNOWN_FOR_ALL_RANKS = ("exposed_transfer", "exposed_wait")
# The compared share of the time of a side's steps, percent; NULL if it has no steps.
_SHARES = """
    SELECT
        COALESCE(phase, 'all') AS scope,
        100 * COALESCE(SUM(base_total_ns) FILTER (is_compared), 0)
            / NULLIF(SUM(base_total_ns), 0) AS base,
        100 * COALESCE(SUM(new_total_ns) FILTER (is_compared), 0)
            / NULLIF(SUM(new_total_ns), 0) AS new
    FROM stratum
    GROUP BY ROLLUP (phase)
"""
_LATENCIES = "SELECT DISTINCT metric, side FROM latency"


class ComparedMetrics:
    def __init__(self, comparison: Comparison, criteria: Sequence[Criterion]) -> None:
        self._forbidden = comparison.forbidden
        self._changes = {
            (row["scope"], row["metric"]): row for row in comparison.table("FROM change")
        }
        for one in criteria:
            roles = one.metric.name.split("+")
            if one.scope and len(roles) > 1 and (row := comparison.together(one.scope, roles)):
                self._changes[one.scope, one.metric.name] = row
        shares = {row.pop("scope"): row for row in comparison.table(_SHARES)}
        self.shares_pct: dict[str, dict[str, float | None]] = shares
        latencies = comparison.table(_LATENCIES)
        self._latencies = {(row["metric"], row["side"]) for row in latencies}

    def row(self, criterion: Criterion) -> dict[str, Any] | None:
        """The row of table change; None if the metric is not on both sides."""
        return self._changes.get((criterion.scope, criterion.metric.name))

    def step_ns(self, scope: str | None) -> float:
        """The mean step of both sides, the unit of metrics without a ratio; 0 if there is none."""
        row = self._changes.get((scope, "step"))
        return 0.0 if row is None else float(row["base"] + row["new"]) / 2

    def obstacle(self, criterion: Criterion) -> str:
        """Why a criterion cannot be decided; empty if it can."""
        if self._forbidden:
            return self._forbidden
        row, metric, scope = self.row(criterion), criterion.metric, criterion.scope
        if scope and (found := self._obstacle_in_steps(scope, metric.name)):
            return found
        if row is not None and row["verdict"] == _NOT_COMPARABLE:
            return str(row["reason"])
        if not scope:
            absent = [side for side in SIDES if (metric.name, side) not in self._latencies]
            if row or absent:
                return "" if row else f"{_without(absent)} {metric.name}"
            return f"not every run has {metric.name} of the same pass, with or without the profiler"
        steps = _steps(scope)
        if row is None:
            return f"no run has {metric.name} in its {steps}"
        # A role that a run lacks may be in another kernel, or not have been recognized.
        without = [side for side in SIDES if min(row[f"{side}_values"]) <= 0]
        if metric.kind == "role" and without:
            return f"{_without(without)} kernels of {metric.name} in the median of {steps}"
        if row["percent_of"] != "itself" and self.step_ns(scope) <= 0:
            return f"the {steps} take no time"
        return ""

    def _obstacle_in_steps(self, scope: str, metric: str) -> str:
        steps, shares = _steps(scope), self.shares_pct.get(scope, dict.fromkeys(SIDES))
        if without := [side for side, share in shares.items() if share is None]:
            return f"{_without(without)} {steps}"
        for side, share in shares.items():
            if share is not None and share < LEAST_COMPARED_PCT:
                return (
                    f"only {share:.0f}% of the time of {side}'s {steps} is compared: not all runs "
                    f"have steps of the same sizes; {LEAST_COMPARED_PCT:.0f}% is the least"
                )
        unmatched = self._changes.get((scope, "exposed_unmatched"))
        if (
            metric in _KNOWN_FOR_ALL_RANKS
            and unmatched
            and max((*unmatched["base_values"], *unmatched["new_values"])) > 0
        ):
            return f"not all ranks are loaded, so {metric} is unknown; use exposed_comm"
        return ""


def _steps(scope: str) -> str:
    return "steps" if scope == ALL_PHASES else f"{scope} steps"


def _without(sides: list[str]) -> str:
    return f"{sides[0]} has no" if len(sides) == 1 else "neither side has"
