"""The communication of a step: all-reduces, spread experts, and the hand-over of stages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from traceql.analysis.model.parts import padded_vocabulary
from traceql.plan.advise.layouts import Layout, Load, replicas_are_apart
from traceql.plan.advise.models import Model
from traceql.plan.limits.collective_time import CollectiveTime
from traceql.plan.limits.series import Series, bus_factor

# Start-ups where none is known for the GPU, ns; docs/advise.md says where they come from.
_ASSUMED_NS = {"all_reduce": 15_000.0, "all_gather": 15_000.0, "send": 7_000.0}
_SAME_AS = {"reduce_scatter": "all_gather"}  # as many bytes move, the other way round
_FAR = 4  # sizes that differ by less than this factor do not tell a bandwidth


class CollectiveNs(Protocol):
    def __call__(self, op: str, ranks: int, size_bytes: float) -> float:
        """Duration of an operation on so many ranks without waiting, ns.

        Args:
            op: all_reduce, all_gather, reduce_scatter or send.
            size_bytes: of the whole buffer.
        """
        ...


@dataclass(frozen=True)
class CollectiveTimes:
    """The times of one kind of GPU.

    Attributes:
        series: known sizes of each operation and number of ranks.
        startup_ns: of a small operation, where no size is known.
        link_bytes_per_ns: peak of the links of a GPU in one direction.
        pair_bytes_per_ns: peak between two GPUs where each pair has a link; None otherwise.
    """

    series: Mapping[tuple[str, int], Series]
    startup_ns: Mapping[tuple[str, int], float]
    link_bytes_per_ns: float
    pair_bytes_per_ns: float | None

    def __call__(self, op: str, ranks: int, size_bytes: float) -> float:
        if ranks == 1:
            return 0.0
        known = _SAME_AS.get(op, op)
        series = self.series.get((known, ranks))
        if series:
            return self._by_sizes(series, max(size_bytes, 1.0))
        return self._startup(known, ranks) + self._moving(known, ranks, size_bytes)

    def _by_sizes(self, one: Series, size_bytes: float) -> float:
        """Sizes near each other tell nothing beyond them: then more bytes move at the peak."""
        smallest, largest = min(one.ns), max(one.ns)
        if smallest <= size_bytes <= largest or largest >= _FAR * smallest:
            return CollectiveTime([one]).expected(one.op, one.ranks, size_bytes).ns
        if size_bytes < smallest:
            return one.ns[smallest]
        return one.ns[largest] + self._moving(one.op, one.ranks, size_bytes - largest)

    def _startup(self, op: str, ranks: int) -> float:
        """Of that many ranks, else of the nearest number that is known."""
        known = {size: ns for (name, size), ns in self.startup_ns.items() if name == op}
        if not known:
            return _ASSUMED_NS[op]
        return known[min(known, key=lambda size: (abs(size - ranks), size))]

    def _moving(self, op: str, ranks: int, size_bytes: float) -> float:
        rate = self.link_bytes_per_ns
        if self.pair_bytes_per_ns:
            rate = self.pair_bytes_per_ns * (1 if op == "send" else ranks - 1)
        return size_bytes * bus_factor(op, ranks) / rate


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
