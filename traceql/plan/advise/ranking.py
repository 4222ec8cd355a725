"""The goal of a deployment, and the load and layout that meet it best."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from traceql.errors import GoalInvalid
from traceql.plan.advise.layouts import Layout, Memory
from traceql.plan.advise.prediction import Prediction
from traceql.util.text import suggestion

_LIMIT = re.compile(r"(?P<metric>\w+)\s*<=?\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)")
_AIM = re.compile(r"(?:max|min)\s+\w+")
_UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}
_LIMITED = ("tpot", "ttft")
AIMS = ("max throughput", "min tpot", "min gpus")


@dataclass(frozen=True)
class Goal:
    """Limits of latency, and what to optimize.

    Attributes:
        aim: one of AIMS; ranks the layouts that meet the limits.
        limits: upper limits, ns, by metric: tpot or ttft.
    """

    aim: str
    limits: dict[str, float]


def parsed_goal(text: str) -> Goal:
    """Parses a goal; the default aim is max throughput.

    Raises GoalInvalid if a part is neither a limit nor an aim, or the goal contradicts itself.
    """
    aims: list[str] = []
    limits: dict[str, float] = {}
    for part in (part.strip().lower() for part in text.split(",")):
        if _AIM.fullmatch(part):
            aim = " ".join(part.split())
            if aim not in AIMS:
                hint = suggestion(aim, AIMS) or f"use one of {', '.join(AIMS)}"
                raise GoalInvalid(f"the goal has no aim '{aim}'; {hint}")
            aims.append(aim)
            continue
        found = _LIMIT.fullmatch(part)
        if not found:
            raise GoalInvalid(
                f"cannot parse '{part}' in the goal; write it as 'tpot < 20ms, ttft < 500ms, "
                "max throughput'"
            )
        metric, unit = found["metric"], found["unit"]
        if metric not in _LIMITED:
            hint = suggestion(metric, _LIMITED) or f"use {' or '.join(_LIMITED)}"
            raise GoalInvalid(f"the goal cannot limit '{metric}'; {hint}")
        if unit not in _UNITS:
            raise GoalInvalid(f"'{part}' in the goal has no unit of time; use us, ms or s")
        if metric in limits:
            raise GoalInvalid(f"the goal limits {metric} twice; keep one of them")
        limits[metric] = float(found["number"]) * _UNITS[unit]
    if len(aims) > 1:
        raise GoalInvalid(f"the goal has two aims, {' and '.join(aims)}; keep one of them")
    return Goal(aims[0] if aims else AIMS[0], limits)


_MOST_REQUESTS = 256  # of a replica: vLLM's own default for max_num_seqs
_NEAR = 0.1  # relative; bisection stops at this distance


@dataclass(frozen=True)
class Candidate:
    """A layout with the number of requests that meets the goal best.

    Attributes:
        prediction: None if the layout does not fit or cannot be predicted.
        why_not: why it cannot be chosen; None if it can.
    """

    layout: Layout
    memory: Memory
    prediction: Prediction | None
    why_not: str | None


def max_requests(layout: Layout, memory: Memory) -> int:
    """The most requests at a time of a replica."""
    return min(memory.requests // layout.dp, _MOST_REQUESTS * layout.pp)


def request_counts(layout: Layout, most: int) -> Iterator[int]:
    """The numbers of requests to predict for a replica: powers of two per pipeline stage."""
    if layout.pp > 1:
        yield 1
    number = layout.pp
    while number <= most:
        yield number
        number *= 2


def bisected_requests(found: Sequence[Prediction], goal: Goal) -> int | None:
    """A number of requests between the most that meet the limits and the next larger one tried.

    None if there is none, or if the two are near each other.
    """
    kept = [one for one in found if not _broken(one, goal)]
    if not kept:
        return None
    layout, low = kept[0].layout, max(one.requests for one in kept)
    high = min((one.requests for one in found if one.requests > low), default=low)
    grain = layout.dp * layout.pp
    middle = (low + high) // 2 // grain * grain
    is_near = high - low <= low * _NEAR
    return middle // layout.dp if low < middle < high and not is_near else None


def best(predictions: Iterable[Prediction], goal: Goal) -> tuple[Prediction | None, str | None]:
    """The prediction that meets the goal best, and which limits it breaks."""
    found = list(predictions)
    kept = [one for one in found if not _broken(one, goal)]
    if kept:
        return max(kept, key=lambda one: _merit(one, goal)), None
    nearest = min(found, key=lambda one: _distance(one, goal))
    return nearest, "; ".join(_broken(nearest, goal))


def _distance(prediction: Prediction, goal: Goal) -> tuple[float, float]:
    """The number of broken limits, and the largest value / limit."""
    values = (_value(prediction, metric) / limit for metric, limit in goal.limits.items())
    return len(_broken(prediction, goal)), max(values)


def ranked(candidates: Iterable[Candidate], goal: Goal) -> list[Candidate]:
    """Candidates that can be chosen, the best first; then the others."""

    def order(candidate: Candidate) -> tuple[float, ...]:
        found, is_excluded = candidate.prediction, candidate.why_not is not None
        if found is None:
            return is_excluded, 1, candidate.memory.weight_bytes
        if _broken(found, goal):
            return is_excluded, 0, *_distance(found, goal)
        return is_excluded, 0, *(-value for value in _merit(found, goal))

    return sorted(candidates, key=order)


def _merit(one: Prediction, goal: Goal) -> tuple[float, float]:
    return aim_order(goal, one.layout, one.tpot_ns, one.tokens_per_s)


def aim_order(
    goal: Goal, layout: Layout, tpot_ns: float, tokens_per_s: float
) -> tuple[float, float]:
    """Larger for what meets the aim better."""
    if goal.aim == "min tpot":
        return -tpot_ns, tokens_per_s
    if goal.aim == "min gpus":
        return -layout.gpus, tokens_per_s
    return tokens_per_s, -layout.gpus


def tied_layouts(candidates: Iterable[Candidate], goal: Goal) -> list[Layout]:
    """The layouts that may be as good as the first one, within the uncertainty of predictions."""
    first, *others = [
        one.prediction for one in candidates if one.why_not is None and one.prediction
    ]

    def may_be_as_good(other: Prediction) -> bool:
        if goal.aim == "min gpus" and other.layout.gpus != first.layout.gpus:
            return False
        if goal.aim == "min tpot":
            return other.tpot_ns * other.spread.low <= first.tpot_ns * first.spread.high
        return other.tokens_per_s / other.spread.low >= first.tokens_per_s / first.spread.high

    return [one.layout for one in others if may_be_as_good(one)]


def _broken(prediction: Prediction, goal: Goal) -> list[str]:
    """The limits that it does not meet, as text."""
    return [
        f"{metric} {_value(prediction, metric) / 1e6:.1f} ms is above {limit / 1e6:g} ms"
        for metric, limit in goal.limits.items()
        if _value(prediction, metric) >= limit
    ]


def _value(prediction: Prediction, metric: str) -> float:
    return prediction.tpot_ns if metric == "tpot" else prediction.ttft_ns


def uncertain_limits(prediction: Prediction, goal: Goal) -> list[str]:
    """The limits that it meets, but may miss within its uncertainty."""
    return [
        metric
        for metric, limit in goal.limits.items()
        if _value(prediction, metric) < limit <= _value(prediction, metric) * prediction.spread.high
    ]
