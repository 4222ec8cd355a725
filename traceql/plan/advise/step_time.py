"""How long a step of a layout takes: computing and communication of its stages, put together."""

from collections.abc import Mapping
from dataclasses import dataclass

from traceql.plan.advise.collective_times import CollectiveNs
from traceql.plan.advise.communication import communication
from traceql.plan.advise.fullest_rank import fullest_rank
from traceql.plan.advise.layouts import Layout, replicas_are_apart, stage_sizes
from traceql.plan.advise.load import Load
from traceql.plan.advise.models import Model
from traceql.plan.advise.role_times import (
    EVERY_STAGE,
    EXPERTS,
    FIRST_STAGE,
    LAST_STAGE,
    Evidence,
    RoleTimes,
)


@dataclass(frozen=True)
class StepTime:
    """One pass of one batch through all stages, ns.

    Attributes:
        ns: from the first stage to the end of the last.
        slowest_stage_ns: of which the next batch has to wait.
        computing_ns, communication_ns, idle_ns: the parts of `ns`.
        least_ns: computing at the peaks of the GPU, without anything else.
        unknown: the parts that are missing in all of these.
    """

    ns: float
    slowest_stage_ns: float
    computing_ns: float
    communication_ns: float
    idle_ns: float
    least_ns: float
    unknown: tuple[str, ...]


def step_time(
    model: Model,
    layout: Layout,
    load: Load,
    evidence: Evidence,
    collective_ns: CollectiveNs,
) -> StepTime | None:
    """The step of one replica; None if the evidence does not have the times of its roles."""
    times = _times(model, layout, load, evidence)
    if times is None:
        return None
    sent = communication(model, layout, load, collective_ns)
    sizes = stage_sizes(model.layers, layout.pp)
    computed = [_of_stage(times.ns, n, sizes) for n in range(layout.pp)]
    least = [_of_stage(times.least_ns, n, sizes) for n in range(layout.pp)]
    moved = [size * sent.layer_ns for size in sizes]
    moved[0] += sent.first_ns
    moved[-1] += sent.last_ns
    handed = (layout.pp - 1) * sent.hand_over_ns
    idle = times.ns.get("idle", 0.0)
    stages = [a + b for a, b in zip(computed, moved, strict=True)]
    return StepTime(
        ns=sum(stages) + handed,
        slowest_stage_ns=max(stages) + sent.hand_over_ns,
        computing_ns=sum(computed) - idle,
        communication_ns=sum(moved) + handed,
        idle_ns=idle,
        least_ns=sum(least),
        unknown=times.unknown,
    )


def _times(model: Model, layout: Layout, load: Load, evidence: Evidence) -> RoleTimes | None:
    """The times of a rank; of experts that are spread over replicas, those of the fullest rank."""
    own = evidence.times(load, layout.tp)
    if own is None or model.sizes.experts is None or not layout.ep:
        return own
    replicas = 1 if replicas_are_apart(layout) else layout.dp
    all_loads = load.of_replicas(replicas)
    spread = evidence.times(all_loads, layout.expert_ranks)
    if spread is None:
        return None
    ratio = fullest_rank(model.sizes.experts, layout.expert_ranks, all_loads.tokens)
    experts = {role: ns * ratio for role, ns in spread.ns.items() if role in EXPERTS}
    least = {role: ns for role, ns in spread.least_ns.items() if role in EXPERTS}
    return RoleTimes({**own.ns, **experts}, {**own.least_ns, **least}, own.unknown)


def _of_stage(ns: Mapping[str, float], number: int, sizes: list[int]) -> float:
    """The time of one stage, which has its share of the layers."""
    share = sizes[number] / sum(sizes)
    is_first, is_last = number == 0, number == len(sizes) - 1
    total = 0.0
    for role, whole in ns.items():
        if role in FIRST_STAGE:
            total += whole * is_first
        elif role in LAST_STAGE:
            total += whole * is_last
        elif role in EVERY_STAGE:
            total += whole
        else:
            total += whole * share
    return total
