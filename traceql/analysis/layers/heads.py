"""Finds what the first layer of a pass begins with: only the embedding precedes it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from traceql.analysis.layers.symbols import letter
from traceql.analysis.layers.texts import HELPERS, LOOKUP, NORMS, PRODUCT, UNKNOWN, first, last

# What can come directly before the first layer of a model whose layers begin without a norm.
_EMBEDDING = (LOOKUP, letter("all_reduce"), letter("point_to_point"))
_BEGINS = tuple(NORMS + UNKNOWN)
# What so many passes show is no damage.
_ENOUGH = 2


@dataclass(frozen=True)
class FirstHeads:
    """The heads of the first layers of the passes.

    Attributes:
        heads: what they may be, the most frequent first.
        normless: whether they begin with a product and not with a norm.
        agreed: whether several passes have them.
    """

    heads: tuple[str, ...]
    normless: bool
    agreed: bool


def usual_first_heads(before: Mapping[str, int], *, norm_is_last: bool) -> FirstHeads:
    """The heads of the first layers, as most passes have them.

    Args:
        before: the kernels from the embedding to the first anchor of a pass, and how often.
        norm_is_last: whether layers end with a norm, so that an unclassified kernel before the
            first product need not be one.
    """
    count = Counter[str]()
    for text, times in before.items():
        head = first_head(text)
        if head:
            count[head.lstrip(UNKNOWN) if norm_is_last else head] += times
    # A head that only one pass has may be a damaged one, if other passes have another one.
    enough = min(_ENOUGH, max(count.values(), default=0))
    heads = [head for head, times in count.items() if times >= enough]
    heads.sort(key=lambda head: (-count[head], head[0] not in NORMS, -len(head)))
    if heads:
        normless = not heads[0].startswith(_BEGINS)
    else:
        normless = norm_is_last or sum(before.values()) < _ENOUGH
    return FirstHeads(
        tuple(head for head in heads if normless or head.startswith(_BEGINS)),
        normless,
        enough >= _ENOUGH,
    )


def first_head(text: str) -> str:
    """The head of the first layer, in the kernels from the embedding to its anchor; "" if unknown.

    It begins at the last norm before the first product. If there is none, an unclassified kernel
    in its place counts as one. A head without a norm must follow the embedding directly.
    """
    product = first(text, PRODUCT)
    if product < 0:
        return ""
    norm = last(text[:product], NORMS)
    if norm > text[:product].rfind(LOOKUP):
        return text[norm:]
    outside = text[:product].rstrip(HELPERS)
    if outside.endswith(UNKNOWN):
        is_only_one = outside[-2:-1] != UNKNOWN
        return text[len(outside) - 1 :] if is_only_one else ""
    return text[len(outside) :] if outside.endswith(_EMBEDDING) else ""
