"""Cuts the kernels between two anchors: where one layer ends and the next one begins.

The kernels between two anchors are the tail of a layer and the head of the next one. Frequent texts
are cut first, and rare ones are compared with them. A text that is rare, although texts like it are
frequent, is damaged: kernels are missing, added or unknown. What it shares with the text most like
it, from either end, is certain.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import product

from traceql.analysis.layers.boundary_evidence import (
    LOOKUP,
    NORMS,
    PRODUCT,
    BoundaryEvidence,
    Cut,
    end_of_feed_forward,
    first_head,
    last,
    longest,
    may_have_feed_forward,
    shared,
)

UNCUT = Cut(-1, -1, False, False)
# A damaged text differs from the intact one by at most this number of kernels in a row; if it
# differs by more, a whole layer may be missing or added: small layers have a dozen kernels.
MOST_DAMAGE = 6
# It occurs at most half as often. Two kinds of layers, one of which is twice as frequent as the
# other one, differ by more than damage does.
_OFTEN = 2
# It shares more than half of its kernels with the intact one.
_LIKE = 0.5
# So few kernels may be missing alone. If more are, a whole layer may be missing with them.
_FEW = 1
# The anchor of a layer, if it is there but not known as one, is one kernel or two.
_ANCHOR = 2
# A text in which the anchor of a layer is missing is longer by that layer. Texts have about the
# same length, so that it is nearly twice as long.
MUCH_LONGER = 1.3
# A model in which so large a share of the layers lacks an MLP may have layers of an MLP alone.
_SOME = 0.05


def _is_another_kind(text: str, place: int, known: str, cut: Cut, heads: Collection[str]) -> bool:
    """Whether a text differs from a known one in a whole part: attention, or the MLP or experts.

    Args:
        place: where the second layer of the text begins.
        heads: heads that several layers have.
    """
    tail, other = text[:place], known[: cut.tail]
    if tail == other:
        return text[place:] in heads
    # A head of a norm and a product alone may be the beginning of an MLP as well.
    if any(head in tail for head in heads if len(head) > 2):
        return False
    # The norm before the MLP or the experts.
    norm = last(other[: max(end_of_feed_forward(other), 0)], NORMS)
    same_attention = shared(tail, other) > norm and end_of_feed_forward(tail[norm:]) >= 0
    same_feed_forward = tail.endswith(other[norm:]) and PRODUCT in tail[: norm - len(other)]
    return norm >= 0 and (same_attention or same_feed_forward)


def _damaged_cut(text: str, known: str, cut: Cut, begin: int, end: int) -> Cut:
    """The cut of a text that begins and ends with this number of kernels of a known one."""
    size = len(known) - cut.head
    tail = cut.tail if begin >= cut.tail else -1
    head = len(text) - size if end >= size else -1
    longer = max(len(text), len(known))
    near = (
        longer - min(len(text), len(known)) <= MOST_DAMAGE and longer - begin - end <= MOST_DAMAGE
    )
    # Kernels that may belong to either layer belong to none.
    either = (max(head, len(text) - end), min(cut.tail, begin))
    if head >= 0 and either[0] < either[1]:
        tail, head = either
    elif near and tail < 0 <= head:
        tail = head - (cut.head - cut.tail)
    elif near and head < 0 <= tail:
        # A kernel may have been added before the head.
        head = text.find(known[cut.head], tail + (cut.head - cut.tail))
    missing = max(len(known) - begin - end, 0)
    return Cut(tail, head, near and min(tail, head) >= 0, whole=missing <= _FEW)


class Cuts:
    """The cuts of all texts of a stream.

    Args:
        texts: the kernels between the anchors of two layers of a pass, and how often they occur.
        before: the kernels from the embedding to the first anchor of a pass, and how often.
        after: the kernels from the last anchor of a pass to sampling, and how often.

    Attributes:
        between: the cut of each text between two anchors.
    """

    def __init__(
        self, texts: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
    ) -> None:
        self._count = texts
        self._evidence = BoundaryEvidence(texts, before, after)
        self.between: dict[str, Cut] = {}
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
        tails = self._evidence.tails
        alone = sum(n for tail, n in tails.items() if not may_have_feed_forward(tail))
        return not _SOME < alone / max(tails.total(), 1) < 1 - _SOME

    def before(self, text: str) -> int:
        """The first kernel of the first layer in the kernels before its anchor; -1 if unknown."""
        heads = self._evidence.heads
        known = [head for head in (*self._evidence.first_heads, *heads) if text.endswith(head)]
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
            return self._evidence.final_norm(text)
        rest = text[size:]
        if end_of_feed_forward(rest.split(LOOKUP)[0]) >= 0:
            heads = (*self._evidence.first_heads, *self._evidence.heads)
            if not rest.startswith(heads):
                return -1  # an MLP or experts follow, but no other layer begins
        if not rest or rest[0] in NORMS or text[size - 1] not in NORMS:
            return size
        # The norm may be the final one instead, which belongs to no layer.
        if self._norm_follows:
            return -1
        return size if self._rest.total() > 1 else size - 1

    def follows_layers(self, text: str) -> bool:
        """Whether the same kernels follow the layers of several passes."""
        return self._rest[text] > 1

    def _longest_tail(self, text: str) -> int:
        """The size of the longest tail that the text begins with, of frequent ones if possible."""
        tails = self._evidence.tails
        size = longest((tail for tail, count in tails.items() if count > 1), text)
        return size if size >= 0 else longest(tails, text)

    def _learn(self) -> None:
        """Cuts the frequent texts first, since the others are compared with them."""
        rest: list[str] = []
        for text in sorted(self._count, key=lambda t: (-self._count[t], t)):
            if self._count[text] < 2 or self._contains_another(text):
                rest.append(text)
            elif (place := self._evidence.begin_with_unknown(text)) >= 0:
                self._keep(text, Cut(self._evidence.certain_end(text, place), place, True))
            elif around := self._evidence.cut_around_unknown(text):
                self.between[text] = around
            else:
                rest.append(text)
        # Short ones first: in a longer one, the anchor of a layer may be missing.
        for text in sorted(rest, key=len):
            self.between[text] = self._rare(text)

    def _keep(self, text: str, cut: Cut) -> None:
        """Notes the cut of an intact text."""
        self.between[text] = self._intact[text] = cut
        self._evidence.note(text, cut, self._count[text])

    def _contains_another(self, text: str) -> bool:
        """Whether the text begins with a whole tail and ends with a whole head of a shorter one.

        Then a layer is missing in between, or its anchor.
        """
        return any(
            len(text) > MUCH_LONGER * len(known)
            and self._count[known] > self._count[text]
            and text.startswith(known[: cut.tail])
            and text.endswith(known[cut.head :])
            for known, cut in self._intact.items()
        )

    def _has_hidden_layer(self, text: str) -> bool:
        """Whether the text is a tail, a whole layer without its anchor, and a head."""
        ends = list(product(self._evidence.tails, self._evidence.heads))
        middles = {
            text[len(tail) : len(text) - len(head)]
            for tail, head in ends
            if len(tail) + len(head) < len(text) and text.startswith(tail) and text.endswith(head)
        }
        return any(
            middle.startswith(head) and middle.endswith(tail)
            for middle in middles
            for tail, head in ends
            if len(head) + len(tail) <= len(middle) <= len(head) + len(tail) + _ANCHOR
        )

    def _damaged(self, text: str) -> Cut | None:
        """The cut of a text that a frequent one became by damage; None if none is like it."""
        best, found = _LIKE, None
        for known, cut in self._intact.items():
            if self._count[known] < _OFTEN * self._count[text]:
                continue
            begin, end = shared(text, known), shared(text[::-1], known[::-1])
            like = min(begin + end, len(text), len(known)) / len(known)
            if like > best:
                best, found = like, _damaged_cut(text, known, cut, begin, end)
        return found

    def _rare(self, text: str) -> Cut:
        found = self._damaged(text)
        if found and found.joined:
            return found
        is_one_layer = not (self._contains_another(text) or self._has_hidden_layer(text))
        place = self._evidence.place(text) if is_one_layer else -1
        agreed = not found or (
            place == self._evidence.by_feed_forward(text)
            and found.tail <= place
            and (found.head < 0 or place <= found.head)
        )
        if place >= 0 and agreed and self._evidence.is_plausible(text, place):
            tail, whole = self._sure_end(text, place), self._is_whole(text, place)
            if tail < place:
                return Cut(tail, place, place - tail <= MOST_DAMAGE, whole)
            self._keep(text, Cut(tail, place, True, whole))
        return self.between.get(text, found or UNCUT)

    def _is_whole(self, text: str, place: int) -> bool:
        """Whether a rare text, which is like no frequent one, is of another kind of layer.

        If there are no frequent ones, it must not be much longer than another one.
        """
        frequent = [(known, cut) for known, cut in self._intact.items() if self._count[known] > 1]
        if not frequent:
            return all(len(text) <= MUCH_LONGER * len(known) for known in self._intact)
        seen = {head for head, count in self._evidence.heads.items() if count > 1}
        heads = seen.union(self._evidence.first_heads)
        return any(_is_another_kind(text, place, *known, heads) for known in frequent)

    def _sure_end(self, text: str, place: int) -> int:
        """The number of kernels of a rare text that surely belong to its tail.

        Of those after the MLP or the experts, only what another text has there does. If the tail of
        another text is shorter, what follows it may be added.
        """
        certain = self._evidence.certain_end(text, place)
        known = longest(self._evidence.tails, text[:place])
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
