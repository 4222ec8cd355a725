"""Cuts texts that damage made of frequent ones: kernels that are missing, added or unknown.

A text that is rare, although texts like it are frequent, is a damaged one. What it shares with the
text most like it, from either end, is certain.
"""

from collections.abc import Collection, Mapping

from traceql.analysis.layers.cut import Cut
from traceql.analysis.layers.texts import NORMS, PRODUCT, end_of_feed_forward, last, shared

# A damaged text differs from the intact one by at most so many kernels in a row; if it differs by
# more, a whole layer may be missing or added: small layers have a dozen kernels.
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


def contains_another(text: str, intact: Mapping[str, Cut], count: Mapping[str, int]) -> bool:
    """Whether the text begins with a whole tail and ends with a whole head of a shorter one.

    Then a layer is missing in between, or its anchor.

    Args:
        intact: the cuts of intact texts.
        count: how often each text occurs.
    """
    return any(
        len(text) > MUCH_LONGER * len(known)
        and count[known] > count[text]
        and text.startswith(known[: cut.tail])
        and text.endswith(known[cut.head :])
        for known, cut in intact.items()
    )


def has_hidden_layer(text: str, tails: Collection[str], heads: Collection[str]) -> bool:
    """Whether the text is a tail, a whole layer without its anchor, and a head.

    Args:
        tails: what layers end with after their anchor.
        heads: what layers begin with before their anchor.
    """
    middles = {
        text[len(tail) : len(text) - len(head)]
        for tail in tails
        for head in heads
        if len(tail) + len(head) < len(text) and text.startswith(tail) and text.endswith(head)
    }
    return any(
        middle.startswith(head) and middle.endswith(tail)
        for middle in middles
        for head in heads
        for tail in tails
        if len(head) + len(tail) <= len(middle) <= len(head) + len(tail) + _ANCHOR
    )


def is_another_kind(text: str, place: int, known: str, cut: Cut, heads: Collection[str]) -> bool:
    """Whether a text differs from a known one in a whole part: attention, or the MLP or experts.

    Args:
        place: where the second layer of the text begins.
        cut: the cut of the known text.
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


def damaged(text: str, intact: Mapping[str, Cut], count: Mapping[str, int]) -> Cut | None:
    """The cut of a text that a frequent one became by damage; None if none is like it.

    Args:
        intact: the cuts of intact texts.
        count: how often each text occurs.
    """
    best, found = _LIKE, None
    for known, cut in intact.items():
        if count[known] < _OFTEN * count[text]:
            continue
        begin, end = shared(text, known), shared(text[::-1], known[::-1])
        like = min(begin + end, len(text), len(known)) / len(known)
        if like > best:
            best, found = like, _damaged_cut(text, known, cut, begin, end)
    return found


def _damaged_cut(text: str, known: str, cut: Cut, begin: int, end: int) -> Cut:
    """The cut of a text that begins and ends with so many kernels of a known one."""
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
