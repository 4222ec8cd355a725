"""Where the steps of a rank begin whose forward passes are known, but no annotation is.

A step prepares the input of a pass, runs its layers, makes logits and samples. So it begins between
the layers of two passes: with the first copy to the device after the last sampling kernel, or else
directly after what sampling copies to the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from traceql.analysis.layers.kernel_text import letter

TO_DEVICE, TO_HOST = ">", "<"  # stand for copies whose direction is known
_SAMPLING, _PRODUCT = letter("sampling"), letter("gemm")
_PREPARATION, _EXCHANGE = letter("input_prep"), letter("point_to_point")


@dataclass(frozen=True, order=True)
class Span:
    """The layers of a forward pass, among the activities of its rank in the order of their launches.

    Attributes:
        begin: the first activity.
        end: the one after the last activity.
    """

    begin: int
    end: int


def step_starts(letters: str, spans: Sequence[Span]) -> list[int]:
    """The first activity of each step, as a place in the order of launches.

    Args:
        letters: one for each activity of a rank, on all its streams, in the order of launches: of its
            symbol, or TO_DEVICE or TO_HOST.
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


def _border(between: str) -> int | None:
    """Where a step begins between two passes; None if they are parts of one step."""
    sampled = between.rfind(_SAMPLING)
    made = sampled if sampled >= 0 else between.rfind(_PRODUCT)
    copied = between.find(TO_DEVICE, made + 1)
    if copied >= 0:
        return copied
    returned = between.rfind(TO_HOST, made + 1)
    if made >= 0 or returned >= 0:
        return max(made, returned) + 1
    prepared, sent = between.find(_PREPARATION), between.find(_EXCHANGE)
    if prepared >= 0:
        return prepared
    return sent + 1 if sent >= 0 else None
