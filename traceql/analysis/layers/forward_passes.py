"""Splits a stream into forward passes, and each pass into layers.

Every layer has one anchor: with attention, the write to the KV cache; with linear attention or a
state-space model, the update of a state. Kernels of both kinds in one layer make one anchor.
"""

import re
from collections import Counter
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
# Inputs may be copied without kernels of input preparation. A layer has no three copies in a row.
_BEFORE_LAYERS = re.compile(f"[{_BORDERS}{LOOKUP}]|{letter('copy')}{{3}}")
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


def _anchors(stream: Stream) -> tuple[Int64s, Int64s]:
    """The first and the last kernel of each anchor; one kernel, unless several make the anchor."""
    at = stream.positions(_ANCHORS)
    if not len(at):
        return at, at
    first_state, places = _first_state(stream, at), at.tolist()
    begins = np.append(True, np.diff(stream.step[at]) != 0)
    for n in np.flatnonzero(~begins).tolist():
        text = stream.letters[places[n - 1] : places[n] + 1]
        begins[n] = not _same_layer(text, first_state)
    return at[begins], at[np.append(begins[1:], True)]


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
    first, last = _anchors(condensed)
    if not len(first):
        return []
    place = np.append(kept, len(stream.letters))
    return [one.placed(place) for one in _Segmentation(condensed, first, last).passes()]


@dataclass(frozen=True)
class _Segmentation:
    """A stream and its anchors: the first and the last kernel of each."""

    stream: Stream
    first: Int64s
    last: Int64s

    @cached_property
    def between(self) -> list[str]:
        """The kernels between each anchor and the next one."""
        return self.stream.texts((self.last[:-1] + 1).tolist(), self.first[1:].tolist())

    @cached_property
    def inside(self) -> set[str]:
        """The kinds of kernels that recur within a step's layers, but for sampling."""
        steps = self.stream.step[self.first[:-1]].tolist()
        often = Counter(zip(steps, self.between, strict=True))
        # Without steps, even the kernels between two passes recur.
        without_step = len(self.between) / 2
        found = {
            kernel
            for (step, text), count in often.items()
            if count >= (_RECURS if step >= 0 else without_step)
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
        separated = np.diff(self.stream.step[self.first]) != 0
        separates = {text: self.separates(text) for text in set(self.between)}
        separated |= np.array([separates[text] for text in self.between], np.bool_)
        ends = np.flatnonzero(separated) + 1
        return list(pairwise([0, *ends.tolist(), len(self.first)]))

    @cached_property
    def before(self) -> list[str]:
        """The kernels before the first anchor of each pass, from the last border or its step on."""
        found = []
        for begin, _ in self.bounds:
            at = int(self.first[begin])
            low = max(self.stream.step_bounds(at)[0], int(self.last[begin - 1]) + 1 if begin else 0)
            text = self.stream.letters[low:at]
            end = _FEED_FORWARD.match(text)
            # The border itself stays, as evidence that the layers begin after it.
            found.append(text[max(self.borders(text), default=end.end() if end else 0) :])
        return found

    @cached_property
    def after(self) -> list[str]:
        """The kernels after the last anchor of each pass, to the first border or its step's end."""
        found = []
        for _, end in self.bounds:
            at = int(self.last[end - 1])
            text = self.stream.letters[at + 1 : self.stream.step_bounds(at)[1]]
            if end < len(self.first):
                text = text[: int(self.first[end]) - at - 1]
            found.append(text[: min(self.borders(text), default=len(text)) + 1])
        return found

    @cached_property
    def begun(self) -> Counter[str]:
        """How often passes begin with the same kernels, as far as their beginning is there."""
        begun = Counter(text for text in self.before[1:] if _OUTSIDE.search(text))
        if _BEFORE_LAYERS.search(self.before[0]):
            begun[self.before[0]] += 1
        return begun

    @cached_property
    def ended(self) -> Counter[str]:
        """How often passes end with the same kernels, from the last anchor on."""
        return Counter(self.after)

    @cached_property
    def cuts(self) -> Cuts:
        inner = (text for begin, end in self.bounds for text in self.between[begin : end - 1])
        return Cuts(Counter(inner), self.begun, self.ended)

    def passes(self) -> list[Pass]:
        if not self.cuts.is_certain:
            return []
        found = [self._pass(n) for n in range(len(self.bounds))]
        texts = [
            [
                self.stream.letters[start:end] if start >= 0 and end >= 0 else None
                for start, end in zip(one.start.tolist(), one.end.tolist(), strict=True)
            ]
            for one in found
        ]
        count = Counter(text for several in texts for text in several)
        # A pass that follows another one in its step begins only where that one ends.
        splits = [one.step == other.step and not one.ends for one, other in pairwise(found)]
        return [
            replace(
                one,
                begins=one.begins and not is_split,
                repeated=np.array([text is not None and count[text] > 1 for text in several]),
            )
            for one, several, is_split in zip(found, texts, [False, *splits], strict=True)
        ]

    def _pass(self, n: int) -> Pass:
        """A pass, as if no layer were repeated."""
        begin, end = self.bounds[n]
        before, after = self.before[n], self.after[n]
        texts = self.between[begin : end - 1]
        inner = [self.cuts.between[text] for text in texts]
        tails = {
            text[: cut.tail]
            for text, cut in zip(texts, inner, strict=True)
            if cut.joined and cut.tail == cut.head
        }
        head, tail = self.cuts.before(before), self.cuts.after(after, tails)
        start, finish = np.full((2, end - begin), -1, np.int64)
        if head >= 0:
            start[0] = int(self.first[begin]) - (len(before) - head)
        if tail >= 0:
            finish[-1] = int(self.last[end - 1]) + 1 + tail
        for place, cut in enumerate(inner):
            after_anchor = int(self.last[begin + place]) + 1
            if cut.tail >= 0:
                finish[place] = after_anchor + cut.tail
            if cut.head >= 0:
                start[place + 1] = after_anchor + cut.head
        return Pass(
            step=int(self.stream.step[self.first[begin]]),
            start=start,
            end=finish,
            joined=np.array([cut.joined for cut in inner], np.bool_),
            whole=all(cut.whole for cut in inner),
            repeated=np.zeros(end - begin, np.bool_),
            first=n == 0,
            last=n == len(self.bounds) - 1,
            begins=self._has_begin(n, head),
            ends=self._has_end(n, tail),
        )

    def _has_begin(self, n: int, head: int) -> bool:
        """Whether what precedes the layers of a pass is there, and no part of a layer in it.

        Args:
            head: where its first layer begins in `before`; -1 if that is unknown.
        """
        before = self.before[n]
        is_usual = self.begun[before] > 1
        if head < 0:
            return is_usual
        at = int(self.first[self.bounds[n][0]])
        low = self.stream.step_bounds(at)[0]
        has_step_start = at - len(before) == low and n > 0
        text = before[:head]
        last = max((found.end() for found in _BEFORE_LAYERS.finditer(text)), default=0)
        if not (_OUTSIDE if has_step_start else _BEFORE_LAYERS).search(text) or _INSIDE.search(
            text[last:]
        ):
            return False
        if n > 0 or is_usual:
            return True
        # The recording may have begun within a layer.
        outside = self.stream.letters[low : at - len(before) + head]
        return bool(_BEFORE_PASS.search(outside)) and not _INSIDE.search(outside)

    def _has_end(self, n: int, tail: int) -> bool:
        """Whether what follows the layers of a pass is there, and no part of a layer in it.

        The final norm and the logits look like the beginning of a layer. So sampling, the gathering
        of logits or something else that is no part of a layer must follow them. Without logits,
        only an exchange with another pipeline stage ends a pass.

        Args:
            tail: the number of kernels of its last layer in `after`; -1 if that is unknown.
        """
        after = self.after[n]
        if tail < 0:
            return self.ended[after] > 1 and bool(_BEGINNINGS.search(after))
        outside = after[tail:]
        if _INSIDE.search(outside):
            return False
        is_usual = self.cuts.follows_layers(outside) and n < len(self.bounds) - 1
        has_logits = _MAY_BE_LOGITS.search(outside) and _BEGINNINGS.search(outside)
        return is_usual or bool(
            has_logits or _STAGE_END in outside or _GATHERED_LOGITS.match(outside)
        )
