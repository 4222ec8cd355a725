"""What a text tells of the layers in it: kinds of kernels, and the end of the MLP or the experts.

A text is a series of kernels of one stream, one letter each (symbols.csv).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from traceql.analysis.layers.symbols import Trait, letter, letters

NORMS = letter("norm") + letter("all_reduce_norm")
PRODUCT = letter("gemm")
PRODUCTS = PRODUCT + letter("expert_gemm")
LOOKUP = letter("lookup")
UNKNOWN = letter("unclassified")
# They prepare the input of a product.
HELPERS = letter("quantize") + letter("fill")
LIGHT = HELPERS + letter("elementwise") + letter("copy")
_ACTIVATION = letter("activation")
_PRODUCT_SUM = letter("gemm_sum")
# What comes last in an MLP or in experts, which are chosen and sorted before; else what there is.
_LAST_FEED_FORWARD = (
    re.compile(f".*[{_ACTIVATION}{letter('expert_gemm')}{letter('expert_sum')}]"),
    re.compile(f".*[{letters(Trait.FEED_FORWARD)}]"),
)
# In one layer, attention comes before the MLP or the experts.
_LAYER_TWICE = re.compile(f"[{letters(Trait.FEED_FORWARD)}].*{letter('attention')}")
_NEW_LAYER = re.compile(f"[{NORMS}].*[{PRODUCTS}]")
_MAY_BE_PRODUCT = re.compile(f"[{PRODUCTS}{UNKNOWN}]")


def end_of_feed_forward(text: str) -> int:
    """The kernel after the last product of the MLP or the last kernel of experts; -1 if none.

    The sum of a split-K product belongs to it. After an activation, an unclassified kernel counts
    as the product if there is no other one.
    """
    found = next(filter(None, (pattern.match(text) for pattern in _LAST_FEED_FORWARD)), None)
    if not found:
        return -1
    end = found.end()
    if text[end - 1] != _ACTIVATION:
        return end
    norm = first(text[end:], NORMS)
    until = len(text) if norm < 0 else end + norm
    product = first(text[end:until], PRODUCTS)
    product = end + product if product >= 0 else text.find(UNKNOWN, end, until)
    if product < 0:
        return -1
    return product + 1 + text.startswith(_PRODUCT_SUM, product + 1)


def around_norm(text: str) -> tuple[int, int]:
    """The kernel after the MLP or the experts, and the first product after it; -1 if unknown.

    The norm that begins the next layer is between the two. If there is no product, it is an
    unclassified kernel after a norm.
    """
    end = end_of_feed_forward(text)
    if end < 0:
        return -1, -1
    if (product := first(text[end:], PRODUCT)) >= 0:
        return end, end + product
    norm = first(text[end:], NORMS)
    return end, text.find(UNKNOWN, end + norm) if norm >= 0 else -1


def has_new_layer(text: str, until: int) -> bool:
    """Whether a norm and a product are between the MLP or the experts and this kernel."""
    end = end_of_feed_forward(text)
    return end >= 0 and bool(_NEW_LAYER.search(text, end, until))


def usual_norms(texts: Mapping[str, int]) -> int:
    """How many norms are usually between the MLP or the experts and the next product.

    Args:
        texts: texts, and how often they occur.
    """
    count = Counter[int]()
    for text, times in texts.items():
        end, product = around_norm(text)
        if product >= 0:
            count[norms_in(text[end:product])] += times
    return max(count, key=lambda norms: count[norms], default=0)


def norms_in(text: str) -> int:
    """The number of norms in a text."""
    return sum(map(text.count, NORMS))


def has_layer_twice(text: str) -> bool:
    """Whether the text has the MLP or the experts of a layer and the attention of a later one."""
    return bool(_LAYER_TWICE.search(text))


def may_have_product(text: str) -> bool:
    """Whether the text has a product, or an unclassified kernel that may be one."""
    return bool(_MAY_BE_PRODUCT.search(text))


def may_have_feed_forward(tail: str) -> bool:
    """Whether a layer that ends with these kernels after its anchor may have an MLP or experts.

    It may if there is a product after the projection; an unclassified kernel may be one.
    """
    projection = first(tail, PRODUCTS)
    after = tail[projection + 1 :] if projection >= 0 else tail[tail.find(UNKNOWN) + 1 :]
    return may_have_product(after)


def shared(one: str, other: str) -> int:
    """With how many of the same kernels two texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def longest(tails: Iterable[str], text: str) -> int:
    """The size of the longest of these tails that the text begins with; -1 if there is none."""
    return max((len(tail) for tail in tails if text.startswith(tail)), default=-1)


def first(text: str, kinds: str) -> int:
    """The first kernel of one of these kinds; -1 if there is none."""
    return min((at for at in map(text.find, kinds) if at >= 0), default=-1)


def last(text: str, kinds: str) -> int:
    """The last kernel of one of these kinds; -1 if there is none."""
    return max(map(text.rfind, kinds))
