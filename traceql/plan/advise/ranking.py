"""The goal, and the load and the layout that serve it best."""

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
_FORM = "write it as 'tpot < 20ms, ttft < 500ms, max throughput'"


@dataclass(frozen=True)
class Goal:
    """What a deployment is for.

    Attributes:
        aim: one of AIMS: what decides between layouts that keep the limits.
        limits: the most that is allowed, ns, by metric: tpot or ttft.
    """

    aim: str
    limits: dict[str, float]


def parsed_goal(text: str) -> Goal:
    """The goal in a text; without an aim it is max throughput.

    Raises:
        GoalInvalid: a part of it is neither a limit nor an aim, or it contradicts itself.
    """
    aims: list[str] = []
    limits: dict[str, float] = {}
    for part in (part.strip().lower() for part in text.split(",")):
        if _AIM.fullmatch(part):
            aims.append(_aim(" ".join(part.split())))
            continue
        metric, ns = _limit(part)
        if metric in limits:
            raise GoalInvalid(f"the goal limits {metric} twice; keep one of them")
        limits[metric] = ns
    if len(aims) > 1:
        raise GoalInvalid(f"the goal has two aims, {' and '.join(aims)}; keep one of them")
    return Goal(aims[0] if aims else AIMS[0], limits)


def _aim(part: str) -> str:
    if part not in AIMS:
        hint = suggestion(part, AIMS) or f"use one of {', '.join(AIMS)}"
        raise GoalInvalid(f"the goal has no aim '{part}'; {hint}")
    return part


def _limit(part: str) -> tuple[str, float]:
    found = _LIMIT.fullmatch(part)
    if not found:
        raise GoalInvalid(f"cannot understand '{part}' in the goal; {_FORM}")
    metric, unit = found["metric"], found["unit"]
    if metric not in _LIMITED:
        hint = suggestion(metric, _LIMITED) or f"use {' or '.join(_LIMITED)}"
        raise GoalInvalid(f"the goal cannot limit '{metric}'; {hint}")
    if unit not in _UNITS:
        raise GoalInvalid(f"'{part}' in the goal has no unit of time; use us, ms or s")
    return metric, float(found["number"]) * _UNITS[unit]


_MOST_REQUESTS = 256  # of a replica: vLLM's own default for max_num_seqs
_NEAR = 0.1  # numbers of requests that differ by no more than this share are not told apart


@dataclass(frozen=True)
class Candidate:
    """A layout with the number of requests that serves the goal best.

    Attributes:
        prediction: None if the layout does not fit or nothing predicts it.
        why_not: why it cannot be chosen; None if it can.
    """

    layout: Layout
    memory: Memory
    prediction: Prediction | None
    why_not: str | None


def most_requests(layout: Layout, memory: Memory) -> int:
    """The most requests at a time that a replica can be given."""
    return min(memory.requests // layout.dp, _MOST_REQUESTS * layout.pp)


def numbers_of_requests(layout: Layout, most: int) -> Iterator[int]:
    """The numbers of requests that a replica is tried with: doubled ones in each of its stages."""
    if layout.pp > 1:
        yield 1
    number = layout.pp
    while number <= most:
        yield number
        number *= 2


def between(found: Sequence[Prediction], goal: Goal) -> int | None:
    """A number of requests between the most that keep the limits and the fewest more that do not.

    None if there is none, or if they are near each other.
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
    """The prediction that serves the goal best, and why it does not keep a limit."""
    found = list(predictions)
    if not found:
        return None, None
    kept = [one for one in found if not _broken(one, goal)]
    if kept:
        return max(kept, key=lambda one: merit(one, goal)), None
    nearest = min(found, key=lambda one: (len(_broken(one, goal)), _excess(one, goal)))
    return nearest, "; ".join(_broken(nearest, goal))


def ranked(candidates: Iterable[Candidate], goal: Goal) -> list[Candidate]:
    """Those that can be chosen, the best first; then the others."""
    return sorted(candidates, key=lambda one: (one.why_not is not None, *_order(one, goal)))


def _order(candidate: Candidate, goal: Goal) -> tuple[float, ...]:
    found = candidate.prediction
    if found is None:
        return (1, candidate.memory.weight_bytes)
    if broken := _broken(found, goal):
        return (0, len(broken), _excess(found, goal))
    return (0, *(-value for value in merit(found, goal)))


def merit(prediction: Prediction, goal: Goal) -> tuple[float, ...]:
    """What is more for what serves the aim better."""
    if goal.aim == "min tpot":
        return (-prediction.tpot_ns, prediction.tokens_per_s)
    if goal.aim == "min gpus":
        return (-prediction.layout.gpus, prediction.tokens_per_s)
    return (prediction.tokens_per_s, -prediction.layout.gpus)


def overlapping(candidates: Iterable[Candidate], goal: Goal) -> list[Layout]:
    """The layouts that may be as good as the first one, given how sure the predictions are."""
    first, *others = [one for one in candidates if one.why_not is None and one.prediction]
    assert first.prediction
    return [
        one.layout
        for one in others
        if one.prediction and _may_be_as_good(one.prediction, first.prediction, goal)
    ]


def _may_be_as_good(other: Prediction, first: Prediction, goal: Goal) -> bool:
    if goal.aim == "min gpus" and other.layout.gpus != first.layout.gpus:
        return False
    if goal.aim == "min tpot":
        return other.tpot_ns * other.spread.low <= first.tpot_ns * first.spread.high
    return other.tokens_per_s / other.spread.low >= first.tokens_per_s / first.spread.high


def _broken(prediction: Prediction, goal: Goal) -> list[str]:
    """The limits that it does not keep, as text."""
    return [
        f"{metric} {_value(prediction, metric) / 1e6:.1f} ms is above {limit / 1e6:g} ms"
        for metric, limit in goal.limits.items()
        if _value(prediction, metric) >= limit
    ]


def _excess(prediction: Prediction, goal: Goal) -> float:
    return max(_value(prediction, metric) / limit for metric, limit in goal.limits.items())


def _value(prediction: Prediction, metric: str) -> float:
    return prediction.tpot_ns if metric == "tpot" else prediction.ttft_ns


def may_break(prediction: Prediction, goal: Goal) -> list[str]:
    """The limits that it keeps, but might not, given how sure the prediction is."""
    return [
        metric
        for metric, limit in goal.limits.items()
        if _value(prediction, metric) < limit <= _value(prediction, metric) * prediction.spread.high
    ]
