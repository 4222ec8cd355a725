"""Where steps begin, by the order in which the activities of a rank were launched.

A step prepares the input of a forward pass, runs its layers, makes logits and samples. So it begins
between the layers of two passes: with the first copy to the device after the last sampling kernel,
or else directly after what sampling copies to the host. The last lookup is that of embeddings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from traceql.analysis.layers.boundary_evidence import LOOKUP
from traceql.analysis.layers.kernel_text import letter

TO_DEVICE, TO_HOST = ">", "<"  # stand for copies whose direction is known
_SAMPLING, _PRODUCT = letter("sampling"), letter("gemm")
_ATTENTION = letter("attention")
_PREPARATION, _EXCHANGE = letter("input_prep"), letter("point_to_point")

_FEWEST_LAYERS = 2


@dataclass(frozen=True, order=True)
class Span:
    """The layers of a forward pass, among the activities of its rank in the order of launches.

    Attributes:
        begin: the first activity.
        end: the one after the last activity.
    """

    begin: int
    end: int


def step_starts(letters: str, spans: Sequence[Span]) -> list[int]:
    """The first activity of each step, as a place in the order of launches.

    Args:
        letters: one for each activity of a rank, on all its streams, in the order of launches: that
            of its symbol, or TO_DEVICE or TO_HOST.
        spans: the passes of all streams, in any order. Those that overlap belong to one step.
    """
    passes = _disjoint(spans)
    if not passes:
        return []
    before = letters[: passes[0].begin]  # may be the end of a step that began before the recording
    starts = [(_border(before) or 0) if _SAMPLING in before else 0]
    for one, other in pairwise(passes):
        border = _border(letters[one.end : other.begin])
        if border is not None:
            starts.append(one.end + border)
    return starts


def _disjoint(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin < found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def attention_spans(letters: str) -> list[Span]:
    """The passes of a model that does not write to a KV cache, from attention to attention.

    Sampling separates them. There are none unless all have the same number of attention kernels,
    but for the first and the last one, which the recording may have cut off.

    Args:
        letters: as in `step_starts`.
    """
    at = [n for n, kernel in enumerate(letters) if kernel in (_ATTENTION, _SAMPLING)]
    found: list[list[int]] = [[]]
    for n in at:
        if letters[n] == _ATTENTION:
            found[-1].append(n)
        elif found[-1]:
            found.append([])
    passes = [places for places in found if places]
    counts = [len(places) for places in passes]
    usual = max(counts, default=0)
    if usual < _FEWEST_LAYERS or counts.count(usual) < 2 or set(counts[1:-1]) - {usual}:
        return []
    return [Span(places[0], places[-1] + 1) for places in passes]


def _border(between: str) -> int | None:
    """Where a step begins between two passes; None if they are parts of one step."""
    sampled = between.rfind(_SAMPLING)
    made = sampled if sampled >= 0 else between.rfind(_PRODUCT)
    lookup = between.rfind(LOOKUP, made + 1)
    end = lookup if lookup >= 0 else len(between)
    copied = between.find(TO_DEVICE, made + 1, end)
    if copied >= 0:
        return copied
    returned = between.rfind(TO_HOST, made + 1, end)
    if made >= 0 or returned >= 0:
        return max(made, returned) + 1
    prepared, sent = between.find(_PREPARATION), between.find(_EXCHANGE)
    if prepared >= 0:
        return prepared
    return sent + 1 if sent >= 0 else None
