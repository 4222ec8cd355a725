"""The least time of each part of a model: its FLOPs and compulsory bytes at the GPU's peaks.

The formulas are those of docs/definitions.md, section "Speed of light".
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from traceql.analysis.model.parts import LOGITS, Part, parts
from traceql.errors import UnknownGpu
from traceql.plan.advise.load import Load
from traceql.plan.advise.machine import Machine
from traceql.plan.advise.models import Model

_FROM_CACHE = ("activations", "kv_write", "gather")  # bytes that count even if they are few


@dataclass(frozen=True)
class PartFloor:
    """Least times of one part of one layer at the peaks, ns.

    Attributes:
        layers: how many layers have it so; 1 outside layers.
    """

    part: Part
    layers: int
    compute_ns: float
    memory_ns: float

    @property
    def ns(self) -> float:
        return max(self.compute_ns, self.memory_ns)


def floors(model: Model, machine: Machine, load: Load, tp: int) -> Iterator[PartFloor]:
    """The floors of all parts on one of `tp` ranks.

    Raises:
        UnknownGpu: the GPU's peak of a type of numbers is not known.
    """
    for part, layers in _alike(model, tp).items():
        flops = _flops(part, load)
        rate = machine.flops_per_ns.get(part.dtype or "")
        if flops and rate is None:
            raise UnknownGpu(f"the {part.dtype} peak of {machine.name} is not known; use --peaks")
        compute_ns = flops / rate if rate else 0.0
        memory_ns = _bytes(model, machine, part, load) / machine.bytes_per_ns
        yield PartFloor(part, layers, compute_ns, memory_ns)


@cache
def _alike(model: Model, tp: int) -> Mapping[Part, int]:
    """The distinct parts of a rank, and how many layers have each."""
    return Counter(replace(part, layer=None) for part in parts(model.sizes, model.formats, tp))


def _rows(part: Part, load: Load) -> int:
    return load.requests if part.rows == LOGITS else load.tokens


def _flops(part: Part, load: Load) -> float:
    pairs = part.context_pair * load.context_pairs + part.generation_pair * load.generation_pairs
    return part.flops_per_row * _rows(part, load) + pairs * _seen(part, load)


def _seen(part: Part, load: Load) -> float:
    """Share of a request's tokens that its attention window leaves."""
    return min(1.0, part.window / load.length) if part.window else 1.0


def _bytes(model: Model, machine: Machine, part: Part, load: Load) -> float:
    rows, element = _rows(part, load), model.formats.plain.input_bytes
    weights = (part.weight_bytes or 0.0) * _touched(part, rows) + part.gathered * rows
    cache = part.kv_written * rows + part.kv_read * load.kv_tokens * _seen(part, load)
    tensors = [size * rows for size in part.tensors]
    if part.formula not in _FROM_CACHE:
        tensors = [size for size in tensors if size > machine.l2_bytes]
    return weights + cache * element + sum(tensors)


def _touched(part: Part, rows: int) -> float:
    """Expected share of the experts that equally likely choices of so many rows touch."""
    if not (part.experts and part.top_k):
        return 1.0
    return 1 - (1 - part.top_k / part.experts) ** rows
