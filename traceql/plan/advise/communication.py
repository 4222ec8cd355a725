"""The communication of a step: all-reduces, spread experts, and the hand-over of stages."""

from dataclasses import dataclass

from traceql.analysis.model.parts import padded_vocabulary
from traceql.plan.advise.collective_times import CollectiveNs
from traceql.plan.advise.layouts import Layout, replicas_are_apart
from traceql.plan.advise.load import Load
from traceql.plan.advise.models import Model


@dataclass(frozen=True)
class Communication:
    """Times of one step or, of layers, of one layer of it, ns.

    Attributes:
        layer_ns: after attention and after the MLP.
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
    """What the ranks of a replica send in a step of this load."""
    tp, size = layout.tp, load.tokens * model.row_bytes
    reduced = collective_ns("all_reduce", tp, size)
    # vLLM sends the hidden state and the residual, in shares of the ranks, which then gather them.
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
    """One all-reduce, or the way of the tokens of all replicas to the experts and back.

    Layers without experts are few in the models that have both, and count as those with experts.
    """
    if model.sizes.experts is None or replicas_are_apart(layout):
        return reduced
    ranks, of_all = layout.expert_ranks, size * layout.dp
    return collective_ns("all_gather", ranks, of_all) + collective_ns(
        "reduce_scatter", ranks, of_all
    )
