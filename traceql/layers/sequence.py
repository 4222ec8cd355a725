"""Layers and roles from the order of kernels alone: a regular expression over their symbols.

Of one stream, with one letter per kernel. Nothing here looks at single kernels one by one: a
layer's letters repeat from step to step, and what one of them means is worked out once.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from traceql.layers.grammar import Grammar, Part

Int64s = npt.NDArray[np.int64]
_KV_WRITE = "k"
_BORDERS = "izPB"  # between two forward passes there is one of these, or another step
_OUTSIDE = "eEimzPBo"  # in front of the first layer there is one of these, copies aside
_OF_A_LAYER = re.compile("[akvTLXU]")
_ROLE_OF_LETTER = {"i": "input_prep", "z": "sample", "P": "pp", "B": "pp"}


@dataclass(frozen=True)
class Stream:
    """The kernels of one stream of one rank, in the order of their start."""

    letters: str
    step: Int64s  # of each kernel; -1 where it has none

    @cached_property
    def _step_starts(self) -> Int64s:
        return np.append(0, np.flatnonzero(np.diff(self.step)) + 1)

    def step_bounds(self, at: int) -> tuple[int, int]:
        """Where the kernels of the step of the kernel at `at` begin and end."""
        place = int(np.searchsorted(self._step_starts, at, side="right"))
        starts = self._step_starts
        end = int(starts[place]) if place < len(starts) else len(self.letters)
        return int(starts[place - 1]), end

    @property
    def letter_codes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.letters.encode("ascii"), np.uint8)


@dataclass(frozen=True)
class Layers:
    """The layers found on a stream: for each, where it is, and which pass and layer it is."""

    grammar: Grammar
    start: Int64s
    end: Int64s
    number: Int64s  # from 0 on this rank; -1 where it is not known
    pass_number: Int64s
    count: int | None  # layers of a whole pass; None where no pass is whole


def layers(stream: Stream, grammar: Grammar, *, count: int | None = None) -> Layers:
    """All layers that match the grammar, numbered where it is certain which they are.

    Args:
        count: how many layers the rank holds, where that is known.
    """
    spans = [m.span() for m in grammar.layer.pattern.finditer(stream.letters)]
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    writes = np.flatnonzero(stream.letter_codes == ord(_KV_WRITE))
    pass_of_write = _passes(stream, writes)
    layer_of_write = np.searchsorted(start, writes, side="right") - 1
    inside = (layer_of_write >= 0) & (writes < end[layer_of_write]) if len(start) else writes < 0
    groups = [
        _Pass(stream, grammar, start, end, np.where(inside, layer_of_write, -1)[members])
        for members in _members(pass_of_write)
    ]
    count = count or _count(groups)
    number = np.full(len(start), -1, np.int64)
    pass_number = np.full(len(start), -1, np.int64)
    ordinal = 0
    for group in groups:
        for part in group.split(count):
            known = part.found[part.found >= 0]
            pass_number[known] = ordinal
            ordinal += 1
            if count:
                part.number_into(number, count)
    return Layers(grammar, start, end, number, pass_number, count)


class _Pass:
    """One forward pass: the layer around each KV-cache write, -1 where none matches there."""

    def __init__(
        self, stream: Stream, grammar: Grammar, start: Int64s, end: Int64s, found: Int64s
    ) -> None:
        self.found = found
        self._where = (stream, grammar, start, end)
        self._stream, self._grammar, self._start, self._end = self._where

    def split(self, count: int | None) -> "Sequence[_Pass]":
        """Passes that follow each other with nothing in between."""
        if not count or len(self.found) == count or len(self.found) % count:
            return [self]
        parts = np.split(self.found, len(self.found) // count)
        return [_Pass(*self._where, part) for part in parts]

    @property
    def is_whole(self) -> bool:
        return self.begins and self.ends

    @property
    def begins(self) -> bool:
        """Whether what comes before the first layer is there, and is no part of a layer."""
        first = self.found[0]
        if first < 0:
            return False
        at = int(self._start[first])
        begin = max(self._stream.step_bounds(at)[0], int(self._end[first - 1]) if first else 0)
        before = self._stream.letters[begin:at]
        return before.rstrip("yA")[-1:] in tuple(_OUTSIDE) and not _OF_A_LAYER.search(before)

    @property
    def ends(self) -> bool:
        """Whether what comes after the last layer is there, and is no part of a layer.

        A final norm and logits look like the beginning of a layer: where the recording ends with
        this step, sampling must follow.
        """
        last = self.found[-1]
        if last < 0:
            return False
        at = int(self._end[last])
        end = self._stream.step_bounds(at - 1)[1]
        following = last + 1
        if following < len(self._start):
            end = min(end, int(self._start[following]))
        after = self._stream.letters[at:end]
        if _OF_A_LAYER.search(after):
            return False
        if self._grammar.after.pattern.match(after):
            return "z" in after or end < len(self._stream.letters)
        return after[:1] in tuple(_OUTSIDE + "y")

    def number_into(self, number: Int64s, count: int) -> None:
        found = self.found
        if len(found) == count and (self.begins or self.ends):
            known = found >= 0
            number[found[known]] = np.flatnonzero(known)
            return
        from_begin = min(self._adjacent(found), count) if self.begins else 0
        from_end = min(self._adjacent(found[::-1]), count) if self.ends else 0
        if from_begin + from_end > len(found):
            return  # whole, and yet of another size
        number[found[:from_begin]] = np.arange(from_begin)
        number[found[len(found) - from_end :]] = np.arange(count - from_end, count)

    def _adjacent(self, found: Int64s) -> int:
        """How many layers from the first on touch each other."""
        if not len(found) or (found < 0).all():
            return 0
        touching = (found[1:] >= 0) & (
            (self._end[found[:-1]] == self._start[found[1:]])
            | (self._end[found[1:]] == self._start[found[:-1]])
        )
        return int(np.argmin(np.append(touching, False))) + 1


def _passes(stream: Stream, writes: Int64s) -> Int64s:
    """The forward pass of each KV-cache write, counted from 0."""
    if not len(writes):
        return writes
    borders = np.isin(stream.letter_codes, np.frombuffer(_BORDERS.encode(), np.uint8))
    seen = np.cumsum(borders)[writes]
    steps = stream.step[writes]
    return np.cumsum(np.append(0, (np.diff(seen) > 0) | (np.diff(steps) != 0)))


def _members(pass_of_write: Int64s) -> list[Int64s]:
    if not len(pass_of_write):
        return []
    return np.split(np.arange(len(pass_of_write)), np.flatnonzero(np.diff(pass_of_write)) + 1)


def _count(groups: Sequence[_Pass]) -> int | None:
    """Layers of most of the passes that are there from beginning to end."""
    sizes = Counter(len(group.found) for group in groups if group.is_whole)
    return sizes.most_common(1)[0][0] if sizes else None


@dataclass(frozen=True)
class Roles:
    """For each kernel of a stream: its layer and pass (-1 where none) and its role ("" if none)."""

    layer: Int64s
    pass_number: Int64s
    role: npt.NDArray[np.object_]


def roles(stream: Stream, found: Layers) -> Roles:
    """Layers spread over their kernels, and the roles of what stands before and after them."""
    total = len(stream.letters)
    layer = np.full(total, -1, np.int64)
    pass_number = np.full(total, -1, np.int64)
    role = np.full(total, "", np.object_)
    certain = np.flatnonzero(found.number >= 0)
    for n in certain.tolist():
        start, end = int(found.start[n]), int(found.end[n])
        layer[start:end] = found.number[n]
        pass_number[start:end] = found.pass_number[n]
        role[start:end] = _layer_roles(found.grammar.layer, stream.letters[start:end])
    for start, end, part in _outer_spans(stream, found, certain):
        role[start:end] = _outer_roles(part, stream.letters[start:end])
    return Roles(layer, pass_number, role)


def _outer_spans(stream: Stream, found: Layers, certain: Int64s) -> Sequence[tuple[int, int, Part]]:
    """What lies before the first layer of each step that has any, and after the last one.

    Between two passes of one step, all belongs to the first one.
    """
    if not len(certain):
        return []
    spans: list[tuple[int, int, Part]] = []
    steps = stream.step
    step_ends = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))
    step_starts = np.append(0, step_ends[:-1])
    first_layer, last_layer = found.number == 0, found.number == (found.count or 0) - 1
    for begin, finish in zip(step_starts.tolist(), step_ends.tolist(), strict=True):
        low, high = np.searchsorted(found.start, (begin, finish))
        here = np.arange(low, high)
        if not len(here) or steps[begin] < 0:
            continue
        if first_layer[here[0]]:
            spans.append((begin, int(found.start[here[0]]), found.grammar.before))
        for last in here[last_layer[here]].tolist():
            following = found.start[here[here > last]]
            end = int(following[0]) if len(following) else finish
            spans.append((int(found.end[last]), end, found.grammar.after))
    return spans


@lru_cache(maxsize=4096)
def _layer_roles(part: Part, letters: str) -> npt.NDArray[np.object_]:
    match = part.pattern.fullmatch(letters)
    assert match, letters
    return np.array(part.roles_of(match), np.object_)


@lru_cache(maxsize=4096)
def _outer_roles(part: Part, letters: str) -> npt.NDArray[np.object_]:
    """What the part names, in its place; all else by its letter."""
    match = part.pattern.fullmatch(letters) or part.pattern.match(letters)
    named = part.roles_of(match) if match else []
    rest = [_ROLE_OF_LETTER.get(letter, "other") for letter in letters[len(named) :]]
    return np.array(named + rest, np.object_)
