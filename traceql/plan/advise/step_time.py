"""The time of a step of a layout: computing and communication in each pipeline stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from traceql.analysis.model.parts import padded_vocabulary
from traceql.plan.advise.layouts import (
    Layout,
    Load,
    fullest_rank,
    replicas_are_independent,
    stage_sizes,
)
from traceql.plan.advise.models import Model
from traceql.plan.advise.role_times import (
    EVERY_STAGE,
    EXPERTS,
    FIRST_STAGE,
    LAST_STAGE,
    Evidence,
    RoleTimes,
)

# Duration of an operation (all_reduce, all_gather, reduce_scatter or send) without waiting, ns, by
# its name, number of ranks and size of the whole buffer in bytes.
CollectiveNs = Callable[[str, int, float], float]


@dataclass(frozen=True)
class Communication:
    """Times of one step, ns.

    Attributes:
        layer_ns: of one layer, after attention and after the MLP.
        first_ns: of the embedding, on the first stage.
        last_ns: of the logits, on the last stage.
        hand_over_ns: between two stages.
    """

    layer_ns: float
    first_ns: float
    last_ns: float
    hand_over_ns: float


def communication(
    model: Model, layout: Layout, load: Load, collective_ns: CollectiveNs
) -> Communication:
    """The communication of the ranks of a replica in a step of this load."""
    tp, size = layout.tp, load.tokens * model.row_bytes
    reduced = collective_ns("all_reduce", tp, size)
    # Each rank sends its share of the hidden state and the residual; the next stage gathers them.
    handed = collective_ns("send", 2, 2 * size / tp) + collective_ns("all_gather", tp, 2 * size)
    logits = load.requests * padded_vocabulary(model.sizes) * model.formats.plain.input_bytes
    return Communication(
        layer_ns=reduced + _after_mlp(layout, size, reduced, collective_ns, model),
        first_ns=reduced,
        last_ns=collective_ns("all_gather", tp, logits),
        hand_over_ns=handed if layout.pp > 1 else 0.0,
    )


def _after_mlp(
    layout: Layout, size: float, reduced: float, collective_ns: CollectiveNs, model: Model
) -> float:
    """One all-reduce, or the exchange of the tokens of all replicas with the experts.

    In models with both, the few layers without experts count like those with experts.
    """
    if model.sizes.experts is None or replicas_are_independent(layout):
        return reduced
    ranks, of_all = layout.expert_ranks, size * layout.dp
    return collective_ns("all_gather", ranks, of_all) + collective_ns(
        "reduce_scatter", ranks, of_all
    )


@dataclass(frozen=True)
class StepTime:
    """One pass of one batch through all stages, ns.

    Attributes:
        ns: from the first stage to the end of the last.
        slowest_stage_ns: the interval between batches, if there are several.
        computing_ns, communication_ns, idle_ns: the parts of `ns`.
        least_ns: computing alone at the peaks of the GPU.
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
    """The times of a rank; with spread experts, those of the fullest rank."""
    own = evidence.times(load, layout.tp)
    if own is None or model.sizes.experts is None or not layout.ep:
        return own
    replicas = 1 if replicas_are_independent(layout) else layout.dp
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
