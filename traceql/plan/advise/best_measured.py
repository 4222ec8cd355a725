"""The measured point that serves the goal best."""

from traceql.plan.advise.advice import Advice
from traceql.plan.advise.goal import Goal
from traceql.plan.advise.measured import MeasuredPoint


def best_measured(advice: Advice) -> MeasuredPoint | None:
    """Of the points that can be compared, are of an allowed layout and keep the limits.

    Points with the requests that were asked for come before others.
    """
    allowed = {one.layout for one in advice.candidates}
    kept = [
        one.point
        for one in (advice.check.checked if advice.check else ())
        if one.point.layout in allowed and one.point.tokens_per_s and _keeps(one.point, advice.goal)
    ]
    alike = [point for point in kept if point.requests == advice.requests]
    return max(alike or kept, key=lambda point: _merit(point, advice.goal), default=None)


def _keeps(point: MeasuredPoint, goal: Goal) -> bool:
    measured = {"tpot": point.tpot_ns, "ttft": point.ttft_ns}
    return all((measured[metric] or limit) < limit for metric, limit in goal.limits.items())


def _merit(point: MeasuredPoint, goal: Goal) -> tuple[float, ...]:
    tokens_per_s = point.tokens_per_s or 0.0
    if goal.aim == "min tpot":
        return (-(point.tpot_ns or 0.0), tokens_per_s)
    if goal.aim == "min gpus":
        return (-point.layout.gpus, tokens_per_s)
    return (tokens_per_s, -point.layout.gpus)
