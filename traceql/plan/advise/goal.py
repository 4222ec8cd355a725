"""The language of goals: `tpot < 20ms, ttft < 500ms, max throughput`."""

import re
from dataclasses import dataclass

from traceql.errors import GoalInvalid
from traceql.util.suggestions import suggestion

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
