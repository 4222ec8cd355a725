"""Cuts the kernels between two anchors: where one layer ends and the next one begins.

Every layer has one anchor: the kernel that writes its keys and values to the KV cache, or the one
that updates the state of linear attention. The kernels between two anchors are the tail of a layer
and the head of the next one. Frequent texts are cut first, and rare ones are compared with them.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from traceql.analysis.layers.cut import UNCUT, Cut
from traceql.analysis.layers.damage import (
    MOST_DAMAGE,
    MUCH_LONGER,
    contains_another,
    damaged,
    has_hidden_layer,
    is_another_kind,
)
from traceql.analysis.layers.heads import first_head
from traceql.analysis.layers.places import Places
from traceql.analysis.layers.texts import (
    LOOKUP,
    NORMS,
    end_of_feed_forward,
    longest,
    may_have_feed_forward,
    shared,
)

# A model in which so large a share of the layers lacks an MLP may have layers of an MLP alone.
_SOME = 0.05


class Cuts:
    """The cuts of all texts of a stream.

    Args:
        texts: the kernels between the anchors of two layers of a pass, and how often they occur.
        before: the kernels from the embedding to the first anchor of a pass, and how often.
        after: the kernels from the last anchor of a pass to sampling, and how often.
    """

    def __init__(
        self, texts: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
    ) -> None:
        self._count, self._before, self._after = texts, before, after
        self._places = Places(texts, before, after)
        self._cuts: dict[str, Cut] = {}
        self._intact: dict[str, Cut] = {}
        self._learn()
        self._rest = Counter[str]()
        for text, count in after.items():
            if (size := self._longest_tail(text)) >= 0:
                self._rest[text[size:]] += count
        norms = sum(n for text, n in self._rest.items() if text.startswith(tuple(NORMS)))
        self._norm_follows = 2 * norms > self._rest.total()

    @property
    def is_certain(self) -> bool:
        """Whether every layer has an anchor.

        It is not certain if some tails have an MLP and others do not: the former may be two layers.
        """
        tails = self._places.tails
        alone = sum(n for tail, n in tails.items() if not may_have_feed_forward(tail))
        return not _SOME < alone / max(tails.total(), 1) < 1 - _SOME

    def between(self, text: str) -> Cut:
        """The cut of a text between two anchors."""
        return self._cuts[text]

    def before(self, text: str) -> int:
        """The first kernel of the first layer in the kernels before its anchor; -1 if unknown."""
        heads = self._places.heads
        known = [head for head in (*self._places.first_heads, *heads) if text.endswith(head)]
        if not known:
            # Only its norm may be missing or not be known as one.
            known = [head[1:] for head in heads if text.endswith(head[1:])]
        own = first_head(text)
        size = len(own if own in known else max(known, key=len, default=""))
        return len(text) - size if known else -1

    def after(self, text: str, tails: Collection[str]) -> int:
        """The number of kernels of the last layer in the kernels after its anchor; -1 if unknown.

        Args:
            tails: the tails of the other layers of the pass.
        """
        size = longest(tails, text)
        if size < 0:
            size = self._longest_tail(text)
        if size < 0:
            return self._places.final_norm(text)
        rest = text[size:]
        if end_of_feed_forward(rest.split(LOOKUP)[0]) >= 0:
            heads = (*self._places.first_heads, *self._places.heads)
            if not rest.startswith(heads):
                return -1  # an MLP or experts follow, but no other layer begins
        if not rest or rest[0] in NORMS or text[size - 1] not in NORMS:
            return size
        # The norm may be the final one instead, which belongs to no layer.
        if self._norm_follows:
            return -1
        return size if self._rest.total() > 1 else size - 1

    def is_usual_begin(self, text: str) -> bool:
        """Whether several passes begin with the same kernels, up to the first anchor."""
        return self._before.get(text, 0) > 1

    def is_usual_end(self, text: str) -> bool:
        """Whether several passes end with the same kernels, from the last anchor on."""
        return self._after.get(text, 0) > 1

    def follows_layers(self, text: str) -> bool:
        """Whether the same kernels follow the layers of several passes."""
        return self._rest[text] > 1

    def _longest_tail(self, text: str) -> int:
        """The size of the longest tail that the text begins with, of frequent ones if possible."""
        tails = self._places.tails
        size = longest((tail for tail, count in tails.items() if count > 1), text)
        return size if size >= 0 else longest(tails, text)

    def _learn(self) -> None:
        """Cuts the frequent texts first, since the others are compared with them."""
        rest: list[str] = []
        for text in sorted(self._count, key=lambda t: (-self._count[t], t)):
            is_frequent = self._count[text] > 1
            if not (is_frequent and self._cut_frequent(text)):
                rest.append(text)
        # Short ones first: in a longer one, the anchor of a layer may be missing.
        for text in sorted(rest, key=len):
            self._cuts[text] = self._rare(text)

    def _cut_frequent(self, text: str) -> bool:
        """Cuts a frequent text; returns whether that is possible."""
        if contains_another(text, self._intact, self._count):
            return False
        place = self._places.place_with_unknown(text)
        if place >= 0:
            self._keep(text, Cut(self._places.certain_end(text, place), place, True))
            return True
        around = self._places.around_unknown(text)
        if around:
            self._cuts[text] = around
        return bool(around)

    def _keep(self, text: str, cut: Cut) -> None:
        """Notes the cut of an intact text."""
        self._cuts[text] = self._intact[text] = cut
        self._places.note(text, cut, self._count[text])

    def _rare(self, text: str) -> Cut:
        found = damaged(text, self._intact, self._count)
        if found and found.joined:
            return found
        is_one_layer = not (
            contains_another(text, self._intact, self._count)
            or has_hidden_layer(text, self._places.tails, self._places.heads)
        )
        place = self._places.place(text) if is_one_layer else -1
        agreed = not found or (
            place == self._places.by_feed_forward(text)
            and found.tail <= place
            and (found.head < 0 or place <= found.head)
        )
        if place >= 0 and agreed and self._places.is_plausible(text, place):
            tail, whole = self._sure_end(text, place), self._is_whole(text, place)
            if tail < place:
                return Cut(tail, place, place - tail <= MOST_DAMAGE, whole)
            self._keep(text, Cut(tail, place, True, whole))
        return self._cuts.get(text, found or UNCUT)

    def _is_whole(self, text: str, place: int) -> bool:
        """Whether a rare text, which is like no frequent one, is of another kind of layer.

        If there are no frequent ones, it must not be much longer than another one.
        """
        frequent = [(known, cut) for known, cut in self._intact.items() if self._count[known] > 1]
        if not frequent:
            return all(len(text) <= MUCH_LONGER * len(known) for known in self._intact)
        seen = {head for head, count in self._places.heads.items() if count > 1}
        heads = seen.union(self._places.first_heads)
        return any(is_another_kind(text, place, *known, heads) for known in frequent)

    def _sure_end(self, text: str, place: int) -> int:
        """The number of kernels of a rare text that surely belong to its tail.

        Of those after the MLP or the experts, only what another text has there does. If the tail of
        another text is shorter, what follows it may be added.
        """
        certain = self._places.certain_end(text, place)
        known = longest(self._places.tails, text[:place])
        certain = known if 0 <= known < certain else certain
        end = end_of_feed_forward(text)
        behind = [
            other[begin : cut.head]
            for other, cut in self._intact.items()
            if (begin := end_of_feed_forward(other)) >= 0
        ]
        if end < 0 or not behind:
            return certain
        return min(certain, end + max(shared(text[end:place], other) for other in behind))
