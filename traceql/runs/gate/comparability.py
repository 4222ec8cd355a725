"""Which criteria can be decided: their numbers on both sides, and obstacles to a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from traceql.runs.compare.comparison import SIDES, Comparison
from traceql.runs.compare.sentences import LEAST_COMPARED_PCT
from traceql.runs.gate.criterion import ALL_PHASES, Criterion, Metric
from traceql.runs.gate.outcome import Numbers

_NOT_COMPARABLE = "not comparable"  # the verdict of table change
_KNOWN_FOR_ALL_RANKS = ("exposed_transfer", "exposed_wait")
_TIMES = """
    SELECT
        COALESCE(phase, 'all') AS scope,
        COALESCE(SUM(base_total_ns), 0) AS base_ns,
        COALESCE(SUM(new_total_ns), 0) AS new_ns,
        COALESCE(SUM(base_total_ns) FILTER (is_compared), 0) AS base_compared_ns,
        COALESCE(SUM(new_total_ns) FILTER (is_compared), 0) AS new_compared_ns
    FROM stratum
    GROUP BY ROLLUP (phase)
"""
_LATENCIES = "SELECT metric, side, COUNT(DISTINCT run) AS runs FROM latency GROUP BY metric, side"


class ComparedMetrics:
    """The metrics of a comparison, by criterion."""

    def __init__(self, comparison: Comparison, criteria: Sequence[Criterion]) -> None:
        self._forbidden = comparison.forbidden
        self._changes = {
            (row["scope"], row["metric"]): row for row in comparison.table("FROM change")
        }
        for one in criteria:
            roles = one.metric.name.split("+")
            is_group = one.scope is not None and len(roles) > 1
            if is_group and (row := comparison.together(one.scope or "", roles)):
                self._changes[one.scope, one.metric.name] = row
        self._times = {row["scope"]: row for row in comparison.table(_TIMES)}
        self._latency_runs = {
            (row["metric"], row["side"]): row["runs"] for row in comparison.table(_LATENCIES)
        }

    def numbers(self, criterion: Criterion) -> Numbers | None:
        """The numbers of a criterion; None if its metric is not on both sides."""
        row = self._changes.get((criterion.scope, criterion.metric.name))
        return None if row is None else Numbers(**{f.name: row[f.name] for f in fields(Numbers)})

    def share(self, side: str, scope: str) -> float | None:
        """The compared share of the time of a side's steps, percent; None if it has no steps."""
        time = self._times.get(scope)
        if time is None or not time[f"{side}_ns"]:
            return None
        return float(100 * time[f"{side}_compared_ns"] / time[f"{side}_ns"])

    def step_ns(self, scope: str | None) -> float:
        """The mean step of both sides, the unit of metrics without a ratio; 0 if there is none."""
        row = self._changes.get((scope, "step"))
        return 0.0 if row is None else float(row["base"] + row["new"]) / 2

    def obstacle(self, criterion: Criterion) -> str:
        """Why a criterion cannot be decided; empty if it can."""
        return self._forbidden or (
            self._obstacle_in_steps(criterion)
            if criterion.scope is not None
            else self._obstacle_in_requests(criterion.metric)
        )

    def _obstacle_in_steps(self, criterion: Criterion) -> str:
        scope = criterion.scope or ALL_PHASES
        steps = "steps" if scope == ALL_PHASES else f"{scope} steps"
        shares = {side: self.share(side, scope) for side in SIDES}
        without = [side for side, share in shares.items() if share is None]
        if without:
            return f"{_without(without)} {steps}"
        for side, share in shares.items():
            if share is not None and share < LEAST_COMPARED_PCT:
                return (
                    f"only {share:.0f}% of the time of {side}'s {steps} is compared: not all runs "
                    f"have steps of the same sizes; {LEAST_COMPARED_PCT:.0f}% is the least"
                )
        if criterion.metric.name in _KNOWN_FOR_ALL_RANKS and self._is_unmatched(scope):
            return (
                f"not all ranks are loaded, so {criterion.metric.name} is unknown; use exposed_comm"
            )
        row = self._changes.get((scope, criterion.metric.name))
        if row is None:
            return f"no run has {criterion.metric.name} in its {steps}"
        if row["verdict"] == _NOT_COMPARABLE:
            return str(row["reason"])
        return self._obstacle_in_metric(scope, criterion.metric, row, steps)

    def _is_unmatched(self, scope: str) -> bool:
        """Whether some run cannot separate transfer from waiting."""
        row = self._changes.get((scope, "exposed_unmatched"))
        return row is not None and max((*row["base_values"], *row["new_values"])) > 0

    def _obstacle_in_metric(
        self, scope: str, metric: Metric, row: Mapping[str, Any], steps: str
    ) -> str:
        if metric.kind == "role":
            # A role that a run lacks may be in another kernel, or not have been recognized.
            without = [side for side in SIDES if min(row[f"{side}_values"]) <= 0]
            if without:
                return f"{_without(without)} kernels of {metric.name} in the median of {steps}"
        if row["percent_of"] != "itself" and self.step_ns(scope) <= 0:
            return f"the {steps} take no time"
        return ""

    def _obstacle_in_requests(self, metric: Metric) -> str:
        row = self._changes.get((None, metric.name))
        if row is not None:
            return str(row["reason"]) if row["verdict"] == _NOT_COMPARABLE else ""
        without = [side for side in SIDES if not self._latency_runs.get((metric.name, side))]
        if without:
            return f"{_without(without)} {metric.name}"
        return f"not every run has {metric.name} of the same pass, with or without the profiler"


def _without(sides: list[str]) -> str:
    return f"{sides[0]} has no" if len(sides) == 1 else "neither side has"
