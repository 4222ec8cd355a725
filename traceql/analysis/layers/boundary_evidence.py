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
from dataclasses import dataclass
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
        self._norms_between = usual_norms(texts)
        self._norm_is_last = usual_norms(after) > self._norms_between
        usual = usual_first_heads(before, norm_is_last=self._norm_is_last)
        self.first_heads, self._normless = usual.heads, usual.normless
        self._agreed = usual.agreed
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
        unknown = self._by_head_with_unknown(text) if place < 0 else -1
        return unknown if _may_begin(text, unknown) else place

    def by_feed_forward(self, text: str) -> int:
        """Where what follows the MLP or the experts begins; -1 if that is unknown."""
        end, product = around_norm(text)
        if product < 0:
            return -1
        between = text[end:product].rstrip(HELPERS)
        if self._normless:
            return end + len(between)
        norm = last(between, NORMS)
        if unknown := between.count(UNKNOWN, max(first(between, NORMS), 0)):
            # It may be the norm, unless there is another one.
            is_norm = norm < 0 and unknown == 1 and between.endswith(UNKNOWN)
            norm = len(between) - 1 if is_norm else -1
        return end + norm if norm >= 0 else -1

    def cut_around_unknown(self, text: str) -> Cut | None:
        """The cut of a text whose norm is unknown: kernels that may be it belong to no layer."""
        end, product = around_norm(text)
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
            norm = first(text[end:place], NORMS)
            place = end + norm if norm >= 0 else place
        sure = max(len(text[:place].rstrip(LIGHT + UNKNOWN)), end_of_feed_forward(text))
        return sure if UNKNOWN in text[sure:place] else place

    def is_plausible(self, text: str, place: int) -> bool:
        """Whether a rare text is cut at its only norm, or before a head that is known.

        Of several norms between two products, another one may begin the layer; and without a norm,
        any product may.
        """
        end = end_of_feed_forward(text)
        is_only_norm = end < 0 or norms_in(text[end : place + 1]) < 2
        is_only_norm = is_only_norm and not self._normless
        return is_only_norm or text[place:] in self.heads or text[place:] in self.first_heads

    def final_norm(self, text: str) -> int:
        """Where the final norm is, in the kernels after the last anchor; -1 if it is unknown.

        As many norms are before it as usually belong to the tail of a layer.
        """
        # The rows of the logits are looked up before the product that makes them.
        end, product = around_norm(text.replace(LOOKUP, PRODUCT))
        norms = [at for at in range(end, product) if text[at] in NORMS] if product >= 0 else []
        before = self._norms_between - (not (self._normless and self._norm_is_last))
        place = norms[min(max(before, 0), len(norms) - 1)] if norms else -1
        # An unclassified kernel may be a norm too.
        if UNKNOWN in text[end : max(place, end)]:
            place = text.index(UNKNOWN, end)
        return -1 if has_layer_twice(text[: max(place, 0)]) else place

    def _most_likely(self, text: str) -> int:
        for head in self.first_heads:
            place = len(text) - len(head)
            # After a norm or another unclassified kernel, one that is may be something else.
            unclear = head[0] == UNKNOWN and text[place - 1] in NORMS + UNKNOWN
            # One pass alone may lack the first projection. Then its head seems to begin later.
            unclear = unclear or (not self._agreed and has_new_layer(text, place))
            if text.endswith(head) and place > 0 and not unclear:
                return place
        place = self.by_feed_forward(text)
        return place if place >= 0 else self._by_known_ends(text)

    def _by_head_with_unknown(self, text: str) -> int:
        """Where the second layer begins, if its head is that of the first one but for one kernel.

        That kernel is unclassified; -1 if there is no such head.
        """
        for head in self.first_heads:
            own = text[-len(head) :]
            differ = [kernel for kernel, other in zip(own, head, strict=False) if kernel != other]
            if len(own) == len(head) and differ == [UNKNOWN]:
                return len(text) - len(head)
        return -1

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
    return may_have_product(text[: max(place, 0)]) and not has_layer_twice(text)
