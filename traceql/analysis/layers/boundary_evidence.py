"""Finds where the second layer begins in the kernels between two anchors.

It begins at the norm before the first projection:

- Only the embedding precedes the head of the first layer of a pass. A text that ends with this
  head is cut there.
- Otherwise, the first layer ends with the last product of the MLP or with the experts. The last
  norm before the next product begins the second one.
- Otherwise, the text begins with a tail, or ends with a head, that another text has.

In some models layers begin without a norm and end with one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from traceql.analysis.layers.kernel_text import Trait, letter, letters

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
# What can come directly before the first layer of a model whose layers begin without a norm.
_EMBEDDING = (LOOKUP, letter("all_reduce"), letter("point_to_point"))
_BEGINS = tuple(NORMS + UNKNOWN)
# What this number of passes show is not damage.
_ENOUGH = 2


class Cut(NamedTuple):
    """Where the kernels between two anchors are divided.

    Attributes:
        tail: the number of kernels of the first layer; -1 if it is unknown.
        head: the place of the first kernel of the second layer; -1 if it is unknown. Kernels
            between the tail and the head belong to one of the two, but it is unknown to which.
        joined: whether no layer is missing between the two, as far as the text shows.
        whole: whether no kernels are missing, as far as other texts show. Where some are, whole
            layers may be missing too.
    """

    tail: int
    head: int
    joined: bool
    whole: bool = True


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
    norm = _first(text, NORMS, end)
    until = norm if norm >= 0 else len(text)
    product = _first(text, PRODUCTS, end, until)
    product = product if product >= 0 else text.find(UNKNOWN, end, until)
    return product + 1 + text.startswith(_PRODUCT_SUM, product + 1) if product >= 0 else -1


def _around_norm(text: str) -> tuple[int, int]:
    """The kernel after the MLP or the experts, and the first product after it; -1 if unknown.

    The norm that begins the next layer is between the two. If there is no product, it is an
    unclassified kernel after a norm.
    """
    end = end_of_feed_forward(text)
    if end < 0:
        return -1, -1
    product, norm = _first(text, PRODUCT, end), _first(text, NORMS, end)
    return end, text.find(UNKNOWN, norm) if product < 0 <= norm else product


def _usual_norms(texts: Mapping[str, int]) -> int:
    """How many norms these texts usually have between the MLP or the experts and a product."""
    count = Counter[int]()
    for text, times in texts.items():
        end, product = _around_norm(text)
        if product >= 0:
            count[_norms_in(text[end:product])] += times
    return max(count, key=lambda norms: count[norms], default=0)


def _norms_in(text: str) -> int:
    return sum(map(text.count, NORMS))


def may_have_feed_forward(tail: str) -> bool:
    """Whether a layer that ends with these kernels after its anchor may have an MLP or experts.

    It may if there is a product after the projection; an unclassified kernel may be one.
    """
    projection = _first(tail, PRODUCTS)
    begin = (projection if projection >= 0 else tail.find(UNKNOWN)) + 1
    return bool(_MAY_BE_PRODUCT.search(tail, begin))


def shared(one: str, other: str) -> int:
    """With how many of the same kernels two texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def longest(tails: Iterable[str], text: str) -> int:
    """The size of the longest of these tails that the text begins with; -1 if there is none."""
    return max((len(tail) for tail in tails if text.startswith(tail)), default=-1)


def _first(text: str, kinds: str, begin: int = 0, end: int | None = None) -> int:
    """The first kernel of one of these kinds in a part of the text; -1 if there is none."""
    found = (text.find(kind, begin, end) for kind in kinds)
    return min((at for at in found if at >= 0), default=-1)


def last(text: str, kinds: str) -> int:
    """The last kernel of one of these kinds; -1 if there is none."""
    return max(map(text.rfind, kinds))


def first_head(text: str) -> str:
    """The head of the first layer, in the kernels from the embedding to its anchor; "" if unknown.

    It begins at the last norm before the first product. If there is none, an unclassified kernel
    in its place counts as one. A head without a norm must follow the embedding directly.
    """
    product = _first(text, PRODUCT)
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


class BoundaryEvidence:
    """What is known of the borders of a stream's layers. Cuts that are found are noted in it.

    Args:
        texts: the kernels between the anchors of two layers of a pass, and how often they occur.
        before: the kernels from the embedding to the first anchor of a pass, and how often.
        after: the kernels from the last anchor of a pass to sampling, and how often.

    Attributes:
        first_heads: what the first layer of a pass may begin with, the most frequent first.
        heads: what other layers begin with, as far as noted, and how often.
        tails: what layers end with after their anchor, as far as noted, and how often.
    """

    def __init__(
        self, texts: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
    ) -> None:
        self._norms_between = _usual_norms(texts)
        self._norm_is_last = _usual_norms(after) > self._norms_between
        count = Counter[str]()
        for text, times in before.items():
            if head := first_head(text):
                # If layers end with a norm, an unclassified kernel need not be one.
                count[head.lstrip(UNKNOWN) if self._norm_is_last else head] += times
        # A head that only one pass has may be a damaged one, if other passes have another one.
        enough = min(_ENOUGH, max(count.values(), default=0))
        self._agreed = enough >= _ENOUGH
        found = [head for head, times in count.items() if times >= enough]
        found.sort(key=lambda head: (-count[head], head[0] not in NORMS, -len(head)))
        # Whether layers begin with a product and not with a norm.
        if found:
            self._normless = not found[0].startswith(_BEGINS)
        else:
            self._normless = self._norm_is_last or sum(before.values()) < _ENOUGH
        self.first_heads = [h for h in found if self._normless or h.startswith(_BEGINS)]
        self.heads = Counter[str]()
        self.tails = Counter[str]()

    def note(self, text: str, cut: Cut, times: int) -> None:
        """Notes the cut of an intact text and how often it occurs."""
        self.tails[text[: cut.tail]] += times
        self.heads[text[cut.head :]] += times

    def place(self, text: str) -> int:
        """Where the second layer begins; -1 if it is unknown."""
        place = self._most_likely(text)
        return place if _may_begin(text, place) else -1

    def begin_with_unknown(self, text: str) -> int:
        """Where the second layer of a frequent text begins; -1 if it is unknown.

        If there is no other evidence, its head is that of the first layer, with one unknown kernel.
        """
        place = self.place(text)
        for head in self.first_heads if place < 0 else ():
            begin = len(text) - len(head)
            own = text[max(begin, 0) :]
            differ = [kernel for kernel, other in zip(own, head, strict=False) if kernel != other]
            if begin >= 0 and differ == [UNKNOWN]:
                return begin if _may_begin(text, begin) else -1
        return place

    def by_feed_forward(self, text: str) -> int:
        """Where what follows the MLP or the experts begins; -1 if that is unknown."""
        end, product = _around_norm(text)
        if product < 0:
            return -1
        between = text[end:product].rstrip(HELPERS)
        if self._normless:
            return end + len(between)
        norm = last(between, NORMS)
        if unknown := between.count(UNKNOWN, max(_first(between, NORMS), 0)):
            # It may be the norm, unless there is another one.
            is_norm = norm < 0 and unknown == 1 and between.endswith(UNKNOWN)
            norm = len(between) - 1 if is_norm else -1
        return end + norm if norm >= 0 else -1

    def cut_around_unknown(self, text: str) -> Cut | None:
        """The cut of a text whose norm is unknown: kernels that may be it belong to no layer."""
        end, product = _around_norm(text)
        between = text[max(end, 0) : max(product, 0)]
        return Cut(end, product, True) if UNKNOWN in between and _may_begin(text, product) else None

    def certain_end(self, text: str, place: int) -> int:
        """The number of kernels that surely belong to the tail, if the head begins at this place.

        Unclassified kernels before a head may be a part of its norm, and so may the light ones
        between. Norms before a head without one may belong to it too, unless the norms after the
        last layer show that layers end with a norm.
        """
        if self._normless and not self._norm_is_last:
            end = 1 + last(text[:place], PRODUCTS)
            norm = _first(text, NORMS, end, place)
            place = norm if norm >= 0 else place
        sure = max(len(text[:place].rstrip(LIGHT + UNKNOWN)), end_of_feed_forward(text))
        return sure if UNKNOWN in text[sure:place] else place

    def is_plausible(self, text: str, place: int) -> bool:
        """Whether a rare text is cut at its only norm, or before a head that is known.

        Of several norms between two products, another one may begin the layer; and without a norm,
        any product may.
        """
        end = end_of_feed_forward(text)
        is_only_norm = end < 0 or _norms_in(text[end : place + 1]) < 2
        is_only_norm = is_only_norm and not self._normless
        return is_only_norm or text[place:] in self.heads or text[place:] in self.first_heads

    def final_norm(self, text: str) -> int:
        """Where the final norm is, in the kernels after the last anchor; -1 if it is unknown.

        As many norms are before it as usually belong to the tail of a layer.
        """
        # The rows of the logits are looked up before the product that makes them.
        end, product = _around_norm(text.replace(LOOKUP, PRODUCT))
        norms = [at for at in range(end, product) if text[at] in NORMS] if product >= 0 else []
        before = self._norms_between - (not (self._normless and self._norm_is_last))
        place = norms[min(max(before, 0), len(norms) - 1)] if norms else -1
        # An unclassified kernel may be a norm too.
        if UNKNOWN in text[end : max(place, end)]:
            place = text.index(UNKNOWN, end)
        return -1 if _LAYER_TWICE.search(text[: max(place, 0)]) else place

    def _most_likely(self, text: str) -> int:
        for head in self.first_heads:
            place = len(text) - len(head)
            # After a norm or another unclassified kernel, one that is may be something else.
            unclear = head[0] == UNKNOWN and text[place - 1] in NORMS + UNKNOWN
            # One pass alone may lack the first projection. Then its head seems to begin later.
            end = end_of_feed_forward(text) if not self._agreed else -1
            unclear = unclear or (end >= 0 and bool(_NEW_LAYER.search(text, end, place)))
            if text.endswith(head) and place > 0 and not unclear:
                return place
        place = self.by_feed_forward(text)
        return place if place >= 0 else self._by_known_ends(text)

    def _by_known_ends(self, text: str) -> int:
        tails = [
            tail
            for tail in self.tails
            if not self._normless and text.startswith(tuple(tail + norm for norm in NORMS))
        ]
        heads = [head for head in self.heads if text.endswith(head)]
        places = {len(max(tails, key=len))} if tails else set()
        if heads:
            places.add(len(text) - len(max(heads, key=len)))
        return places.pop() if len(places) == 1 else -1


def _may_begin(text: str, place: int) -> bool:
    """Whether a place is known, and the kernels before it may be the tail of one layer."""
    tail = text[: max(place, 0)]
    return bool(_MAY_BE_PRODUCT.search(tail)) and not _LAYER_TWICE.search(tail)
