"""Splits a stream into forward passes, and each pass into layers.

Every layer has one anchor: with attention, the write to the KV cache; with linear attention or a
state-space model, the update of a state. Kernels of both kinds in one layer make one anchor.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from traceql.analysis.layers.boundary_evidence import LOOKUP, NORMS, PRODUCT, PRODUCTS, UNKNOWN
from traceql.analysis.layers.kernel_text import CONTINUED, Int64s, Stream, Trait, letter, letters
from traceql.analysis.layers.layer_boundaries import Cuts

_STATES = letter("state_update") + letter("state_prefill")
_ANCHORS = letters(Trait.ANCHORS_LAYER)
# After a norm, an unclassified kernel may be a product.
_MAY_BE_PRODUCT = re.compile(f"[{PRODUCTS}]|[{NORMS}].*{UNKNOWN}")
_OTHER_LAYER = re.compile(f"[{letters(Trait.FEED_FORWARD)}{letter('sampling')}]")
# A norm whose output goes to a product: a layer may begin with it.
_NEW_LAYER = re.compile(f"[{NORMS}].*[{PRODUCTS}]")
_SAMPLING = letter("sampling")
_STAGE_END = letter("point_to_point")
_BORDERS = letters(Trait.BETWEEN_PASSES) + _STAGE_END
_BEGINNINGS = re.compile(f"[{_BORDERS}{LOOKUP}]")
_BEFORE_PASS = re.compile(f"[{_BORDERS}{letter('copy')}]")
_OUTSIDE = re.compile(f"[{letters(Trait.OUTSIDE_LAYERS)}]")
_INSIDE = re.compile(f"[{letters(Trait.INSIDE_LAYERS)}]")
_FEED_FORWARD = re.compile(f".*[{letters(Trait.FEED_FORWARD)}]")
# The final norm, the product that makes the logits, and their exchange between ranks.
_GATHERED_LOGITS = re.compile(
    f"[{NORMS}][^{PRODUCTS}]*{PRODUCT}{letter('gemm_sum')}?"
    f"[{letter('all_gather')}{letter('all_reduce')}]"
)
_MAY_BE_LOGITS = re.compile(f"[{PRODUCT}{UNKNOWN}]")
# A kernel between two anchors that recurs in one step so often belongs to the layers.
_RECURS = 3


@dataclass(frozen=True)
class Anchors:
    """The anchors of a stream, in its order.

    Attributes:
        first: the first kernel of each anchor.
        last: the last kernel of each anchor; the same one unless several kernels make the anchor.
    """

    first: Int64s
    last: Int64s


def anchors(stream: Stream) -> Anchors:
    """All anchors of a stream."""
    at = stream.positions(_ANCHORS)
    if not len(at):
        return Anchors(at, at)
    begins = np.append(True, ~_in_one_layer(stream, at))
    ends = np.append(begins[1:], True)
    return Anchors(at[begins], at[ends])


def _in_one_layer(stream: Stream, at: Int64s) -> npt.NDArray[np.bool_]:
    """Whether each of these kernels and the next one belong to the same layer."""
    first_state = _first_state(stream, at)
    same_step = np.diff(stream.step[at]) == 0
    found = np.zeros(len(at) - 1, np.bool_)
    places = at.tolist()
    for n in np.flatnonzero(same_step).tolist():
        found[n] = _same_layer(stream.letters[places[n] : places[n + 1] + 1], first_state)
    return found


@lru_cache(maxsize=4096)
def _same_layer(text: str, first_state: str) -> bool:
    """Whether the first and the last kernel of the text belong to the same layer.

    They do if no product is between them; if they are of different kinds and no norm begins a new
    layer; and if a layer updates its states twice, for requests in prefill and in decode.
    """
    first, last, between = text[0], text[-1], text[1:-1]
    if not _MAY_BE_PRODUCT.search(between):
        return True
    if first == last or _OTHER_LAYER.search(between):
        return False
    if first in _STATES and last in _STATES:
        return first == first_state
    return not _NEW_LAYER.search(between)


def _first_state(stream: Stream, at: Int64s) -> str:
    """Of the two kinds of state updates, the one that comes first in most steps that have both."""
    states = at[np.isin(stream.codes[at], np.frombuffer(_STATES.encode(), np.uint8))]
    if not len(states):
        return ""
    borders = np.flatnonzero(np.diff(stream.step[states])) + 1
    first = Counter[str]()
    for part in np.split(states, borders):
        if len({stream.letters[n] for n in part.tolist()}) > 1:
            first[stream.letters[int(part[0])]] += 1
    return max(first, key=lambda kind: first[kind]) if first else ""


@dataclass(frozen=True)
class Pass:
    """One forward pass; each of its layers has an anchor.

    Attributes:
        step: the step_id of its kernels; -1 if they have none.
        start: the first kernel of each layer; -1 if it is unknown.
        end: the kernel after the last one of each layer; -1 if it is unknown.
        joined: for each layer but the last one, whether the next one follows it directly.
        whole: whether no kernels are missing between its layers, as far as other passes show.
        repeated: for each layer, whether another one has the same kernels. Then it is certain that
            none is missing or added.
        first: whether it is the first pass of the stream: the recording may have begun within it.
        last: whether it is the last pass of the stream: the recording may have ended within it.
        begins: whether the kernels before its first layer are there.
        ends: whether the kernels after its last layer are there.
    """

    step: int
    start: Int64s
    end: Int64s
    joined: npt.NDArray[np.bool_]
    whole: bool
    repeated: npt.NDArray[np.bool_]
    first: bool
    last: bool
    begins: bool
    ends: bool

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def known(self) -> Int64s:
        """The layers whose first and last kernel are known."""
        return np.flatnonzero((self.start >= 0) & (self.end >= 0))

    @cached_property
    def certain(self) -> "Pass":
        """The same pass, but only layers that another one confirms are known."""
        return replace(
            self,
            start=np.where(self.repeated, self.start, -1),
            end=np.where(self.repeated, self.end, -1),
        )

    def placed(self, place: Int64s) -> "Pass":
        """The same pass on a stream where kernel `n` is kernel `place[n]`."""
        return replace(
            self,
            start=np.where(self.start >= 0, place[self.start], -1),
            end=np.where(self.end >= 0, place[self.end], -1),
        )

    @property
    def from_begin(self) -> int:
        """The number of layers from the first one on that follow each other directly."""
        return self._chain(1) if self.begins else 0

    @property
    def from_end(self) -> int:
        """The number of layers up to the last one that follow each other directly."""
        return self._chain(-1) if self.ends else 0

    @cached_property
    def is_complete(self) -> bool:
        """Whether what precedes and follows its layers is there, and layers join in between.

        Unless it is whole, layers may be missing anyway.
        """
        return self.begins and self.ends and len(self.known) > 0 and bool(self.joined.all())

    def _chain(self, direction: int) -> int:
        known = np.zeros(len(self), np.bool_)
        known[self.known] = True
        known, joined = known[::direction], self.joined[::direction]
        return int(np.argmin(np.append(known & np.append(True, joined), False)))


def passes(stream: Stream) -> list[Pass]:
    """All forward passes of a stream, in its order."""
    # A norm of several kernels is one here, however many kernels it has.
    kept = np.flatnonzero(stream.codes != ord(CONTINUED))
    condensed = Stream("".join(stream.letters.split(CONTINUED)), stream.step[kept])
    found = anchors(condensed)
    if not len(found.first):
        return []
    place = np.append(kept, len(stream.letters))
    return [one.placed(place) for one in _Segmentation(condensed, found).passes()]


@dataclass(frozen=True)
class _Segmentation:
    """The anchors of a stream and the kernels between them."""

    stream: Stream
    anchors: Anchors

    @cached_property
    def between(self) -> list[str]:
        """The kernels between each anchor and the next one."""
        last, first = self.anchors.last[:-1], self.anchors.first[1:]
        return self.stream.texts((last + 1).tolist(), first.tolist())

    @cached_property
    def inside(self) -> set[str]:
        """The kinds of kernels that recur within a step's layers, but for sampling."""
        steps = self.stream.step[self.anchors.first[:-1]].tolist()
        often = Counter(zip(steps, self.between, strict=True))
        # Without steps, even the kernels between two passes recur.
        enough = {step: _RECURS if step >= 0 else len(self.between) / 2 for step in set(steps)}
        found = {
            kernel
            for (step, text), count in often.items()
            if count >= enough[step]
            for kernel in text
        }
        return found - set(_SAMPLING)

    @cached_property
    def border(self) -> re.Pattern[str]:
        """The kernels that separate passes."""
        return re.compile(f"[{''.join(set(_BORDERS) - self.inside)}]")

    def borders(self, text: str) -> list[int]:
        """The kernels of a text that separate passes.

        They follow the MLP or the experts of the last layer. Experts may be chosen with kernels
        that are otherwise for sampling.
        """
        found = _FEED_FORWARD.match(text)
        return [one.start() for one in self.border.finditer(text, found.end() if found else 0)]

    def separates(self, text: str) -> bool:
        """Whether a text has the kernels between two passes: sampling, input preparation, lookups.

        Only one such kernel may be damage.
        """
        borders = self.borders(text)
        has_lookup = LOOKUP not in self.inside and LOOKUP in text
        return len(borders) + has_lookup > 1 if borders else False

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """The first anchor of each pass, and the one after its last."""
        separated = np.diff(self.stream.step[self.anchors.first]) != 0
        separates = {text: self.separates(text) for text in set(self.between)}
        separated |= np.array([separates[text] for text in self.between], np.bool_)
        ends = np.flatnonzero(separated) + 1
        return list(pairwise([0, *ends.tolist(), len(self.anchors.first)]))

    def passes(self) -> list[Pass]:
        before = [self._before(begin) for begin, _ in self.bounds]
        after = [self._after(end) for _, end in self.bounds]
        texts = Counter(
            text for begin, end in self.bounds for text in self.between[begin : end - 1]
        )
        begun = Counter(text for text in before[1:] if _OUTSIDE.search(text))
        if _BEGINNINGS.search(before[0]):
            begun[before[0]] += 1
        cuts = Cuts(texts, begun, Counter(after))
        if not cuts.is_certain:
            return []
        found = [
            self._pass(cuts, bounds, before[n], after[n], n == 0, n == len(self.bounds) - 1)
            for n, bounds in enumerate(self.bounds)
        ]
        return self._compared(_with_certain_begins(found))

    def _compared(self, found: Sequence[Pass]) -> list[Pass]:
        """The passes, in which repeated layers are noted."""
        texts = [
            [
                self.stream.letters[start:end] if start >= 0 and end >= 0 else None
                for start, end in zip(one.start.tolist(), one.end.tolist(), strict=True)
            ]
            for one in found
        ]
        count = Counter(text for several in texts for text in several)
        return [
            replace(
                one, repeated=np.array([text is not None and count[text] > 1 for text in several])
            )
            for one, several in zip(found, texts, strict=True)
        ]

    def _before(self, begin: int) -> str:
        """The kernels before the first anchor of a pass, from the last border or its step on."""
        at = int(self.anchors.first[begin])
        low = self.stream.step_bounds(at)[0]
        if begin:
            low = max(low, int(self.anchors.last[begin - 1]) + 1)
        text = self.stream.letters[low:at]
        found = _FEED_FORWARD.match(text)
        # The border itself stays, as evidence that the layers begin after it.
        return text[max(self.borders(text), default=found.end() if found else 0) :]

    def _has_begin(self, cuts: Cuts, begin: int, before: str, head: int, first: bool) -> bool:
        """Whether what precedes the layers of a pass is there."""
        if head < 0:
            return cuts.is_usual_begin(before)
        at = int(self.anchors.first[begin])
        low = self.stream.step_bounds(at)[0]
        from_step_start = at - len(before) == low
        if not _begins(before[:head], from_step_start and not first):
            return False
        if not first or cuts.is_usual_begin(before):
            return True
        # The recording may have begun within a layer.
        outside = self.stream.letters[low : at - len(before) + head]
        return bool(_BEFORE_PASS.search(outside)) and not _INSIDE.search(outside)

    def _after(self, end: int) -> str:
        """The kernels after the last anchor of a pass, to the first border or its step's end."""
        at = int(self.anchors.last[end - 1])
        high = self.stream.step_bounds(at)[1]
        if end < len(self.anchors.first):
            high = min(high, int(self.anchors.first[end]))
        text = self.stream.letters[at + 1 : high]
        borders = self.borders(text)
        return text[: borders[0] + 1] if borders else text

    def _pass(
        self, cuts: Cuts, bounds: tuple[int, int], before: str, after: str, first: bool, last: bool
    ) -> Pass:
        begin, end = bounds
        inner = [cuts.between(text) for text in self.between[begin : end - 1]]
        tails = {
            text[: cut.tail]
            for text, cut in zip(self.between[begin : end - 1], inner, strict=True)
            if cut.joined and cut.tail == cut.head
        }
        head, tail = cuts.before(before), cuts.after(after, tails)
        begins = self._has_begin(cuts, begin, before, head, first)
        ends = _has_end(cuts, after, tail, last)
        start = np.full(end - begin, -1, np.int64)
        finish = np.full(end - begin, -1, np.int64)
        if head >= 0:
            start[0] = int(self.anchors.first[begin]) - (len(before) - head)
        if tail >= 0:
            finish[-1] = int(self.anchors.last[end - 1]) + 1 + tail
        for n, cut in enumerate(inner):
            after_anchor = int(self.anchors.last[begin + n]) + 1
            if cut.tail >= 0:
                finish[n] = after_anchor + cut.tail
            if cut.head >= 0:
                start[n + 1] = after_anchor + cut.head
        joined = np.array([cut.joined for cut in inner], np.bool_)
        repeated = np.zeros(end - begin, np.bool_)
        step = int(self.stream.step[self.anchors.first[begin]])
        whole = all(cut.whole for cut in inner)
        return Pass(step, start, finish, joined, whole, repeated, first, last, begins, ends)


def _with_certain_begins(found: Sequence[Pass]) -> list[Pass]:
    """The passes; one that follows another in its step begins only where that one ends."""
    is_split = [one.step == other.step and not one.ends for one, other in pairwise(found)]
    return [
        replace(one, begins=False) if split else one
        for one, split in zip(found, [False, *is_split], strict=True)
    ]


def _has_end(cuts: Cuts, after: str, tail: int, last: bool) -> bool:
    """Whether what follows the layers of a pass is there."""
    if tail < 0:
        return cuts.is_usual_end(after) and bool(_BEGINNINGS.search(after))
    return _ends(after[tail:], cuts.follows_layers(after[tail:]) and not last)


def _begins(outside: str, whole: bool) -> bool:
    """Whether these kernels come before the layers of a pass, and no part of a layer is there.

    Args:
        whole: whether they are all that the step has before the layers.
    """
    evidence = _OUTSIDE if whole else _BEGINNINGS
    last = max((found.end() for found in _BEGINNINGS.finditer(outside)), default=0)
    return bool(evidence.search(outside)) and not _INSIDE.search(outside[last:])


def _ends(outside: str, usual: bool) -> bool:
    """Whether these kernels follow the layers of a pass, and no part of a layer is among them.

    The final norm and the logits look like the beginning of a layer. So sampling, the gathering of
    logits or something else that is no part of a layer must follow them. Without logits, only
    an exchange with another pipeline stage ends a pass.

    Args:
        usual: whether the same kernels follow the layers of other passes.
    """
    if _INSIDE.search(outside):
        return False
    has_logits = _MAY_BE_LOGITS.search(outside) and _BEGINNINGS.search(outside)
    return usual or bool(has_logits or _STAGE_END in outside or _GATHERED_LOGITS.match(outside))
