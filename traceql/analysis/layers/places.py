"""Finds where the second layer begins in the kernels between two anchors.

It begins at the norm before the first projection:

- The first layer of a pass shows it, because only the embedding precedes its head. A text that
  ends with this head is cut there.
- Otherwise, the first layer ends with the last product of the MLP or with the experts. The last
  norm before the next product begins the second one.
- Otherwise, the text begins with a tail, or ends with a head, that another text has.

In some models layers begin without a norm and end with one.
"""

from collections import Counter
from collections.abc import Mapping

from traceql.analysis.layers.cut import Cut
from traceql.analysis.layers.heads import usual_first_heads
from traceql.analysis.layers.texts import (
    HELPERS,
    LIGHT,
    LOOKUP,
    NORMS,
    PRODUCT,
    PRODUCTS,
    UNKNOWN,
    around_norm,
    end_of_feed_forward,
    first,
    has_layer_twice,
    has_new_layer,
    last,
    may_have_product,
    norms_in,
    usual_norms,
)


class Places:
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
        """Notes the cut of an intact text that occurs so many times."""
        self.tails[text[: cut.tail]] += times
        self.heads[text[cut.head :]] += times

    def place(self, text: str) -> int:
        """Where the second layer begins; -1 if it is unknown."""
        place = self._most_likely(text)
        return place if _may_begin(text, place) else -1

    def place_with_unknown(self, text: str) -> int:
        """Where the second layer of a frequent text begins; -1 if it is unknown.

        If nothing else tells it, its head is that of the first layer, with one unknown kernel.
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

    def around_unknown(self, text: str) -> Cut | None:
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
