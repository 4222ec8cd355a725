"""Layers and roles from the order of kernels alone: a regular expression over their symbols.

Of one stream, with one letter per kernel. Nothing here looks at single kernels one by one: a
layer's letters repeat from step to step, and what one of them means is worked out once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from traceql.layers.grammar import Grammar, Part
from traceql.layers.symbols import Trait, letter, letters, symbols

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
_CODES = {"": 0}  # of each role that was met
_KV_WRITE = letter("kv_write")
# Between two forward passes there is one of these, or another step.
_BORDERS = letters(Trait.BETWEEN_PASSES)
# Such a kernel does too, unless layers exchange tokens with other ranks by these kernels.
_STAGE_BORDER = letter("point_to_point")
_SAMPLING, _LOOKUP, _COPY = letter("sampling"), letter("lookup"), letter("copy")
_OUTSIDE = letters(Trait.OUTSIDE_LAYERS)
_ASIDE = letters(Trait.BESIDE_LAYERS)
_OF_A_LAYER = re.compile(f"[{letters(Trait.INSIDE_LAYERS)}]")
_ANYWHERE = {s.letter: s.role_outside_layers for s in symbols() if s.role_outside_layers}
_MOVES = letters(Trait.MOVES_DATA)
_ALIKE = 0.4  # of a layer's kernels: how far the length of a gap may be from whole layers


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

    @cached_property
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

    @property
    def explained(self) -> int:
        """Kernels whose layer is known."""
        return int((self.end - self.start)[self.number >= 0].sum())


@dataclass(frozen=True)
class _Matches:
    """Where a grammar's layers are on a stream."""

    stream: Stream
    grammar: Grammar
    start: Int64s
    end: Int64s

    @cached_property
    def borders(self) -> str:
        """Letters that part passes: point-to-point kernels do unless layers have them."""
        sent = np.flatnonzero(self.stream.letter_codes == ord(_STAGE_BORDER))
        return _BORDERS if (self.layer_at(sent) >= 0).any() else _BORDERS + _STAGE_BORDER

    def layer_at(self, places: Int64s) -> Int64s:
        """The match around each place; -1 where there is none."""
        if not len(self.start):
            return np.full(len(places), -1, np.int64)
        layer = np.searchsorted(self.start, places, side="right") - 1
        return np.where((layer >= 0) & (places < self.end[layer]), layer, -1)


def layers(
    stream: Stream, grammar: Grammar, *, count: int | None = None, configured: int | None = None
) -> Layers:
    """All layers that match the grammar, numbered where it is certain which they are.

    Args:
        count: how many layers the rank holds, where that is known.
        configured: how many the model has; decides only between passes of several sizes.
    """
    spans = [m.span() for m in grammar.layer.pattern.finditer(stream.letters)]
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    matches = _Matches(stream, grammar, start, end)
    groups = _groups(matches)
    count = count or _count(groups, configured)
    number = np.full(len(start), -1, np.int64)
    pass_number = np.full(len(start), -1, np.int64)
    parts = [part for group in groups for part in group.split(count)]
    smaller = _largest_of_another_model(parts, count)
    for ordinal, part in enumerate(parts):
        pass_number[part.known] = ordinal
        if count:
            part.number_into(number, count, smaller)
    return Layers(grammar, start, end, number, pass_number, count)


@dataclass(frozen=True)
class _Pass:
    """One forward pass: the layer around each KV-cache write, -1 where none matches there."""

    matches: _Matches
    found: Int64s
    first: bool  # of the stream: the recording may have begun within it
    last: bool

    @cached_property
    def known(self) -> Int64s:
        return self.found[self.found >= 0]

    def split(self, count: int | None) -> "Sequence[_Pass]":
        """Passes that follow each other with nothing in between."""
        if not count or len(self.found) == count or len(self.found) % count:
            return [self]
        parts = np.split(self.found, len(self.found) // count)
        return [_Pass(self.matches, part, False, False) for part in parts]

    @property
    def is_whole(self) -> bool:
        """From what precedes the first layer to what follows the last, with nothing between."""
        return self._adjacent(self.found) == len(self.found) and self.begins and self.ends

    @cached_property
    def begins(self) -> bool:
        """Whether what comes before the first layer is there, and is no part of a layer."""
        first = self.found[0]
        if first < 0:
            return False
        at = int(self.matches.start[first])
        begin = self.matches.stream.step_bounds(at)[0]
        begin = max(begin, int(self.matches.end[first - 1]) if first else 0)
        before = self.matches.stream.letters[begin:at]
        outside = max(before.rfind(letter) for letter in self.matches.borders + _LOOKUP) + 1
        between = before[outside:]
        ends_outside = before.rstrip(_ASIDE)[-1:] in tuple(_OUTSIDE)
        return ends_outside and not _OF_A_LAYER.search(between)

    @cached_property
    def ends(self) -> bool:
        """Whether what comes after the last layer is there, and is no part of a layer.

        A final norm and logits look like the beginning of a layer: where the recording ends with
        this step, sampling or an exchange of logits must follow.
        """
        last = self.found[-1]
        if last < 0:
            return False
        letters = self.matches.stream.letters
        at = int(self.matches.end[last])
        end = self.matches.stream.step_bounds(at - 1)[1]
        following = last + 1
        if following < len(self.matches.start):
            end = min(end, int(self.matches.start[following]))
        after = letters[at:end]
        if _OF_A_LAYER.search(re.split(f"[{self.matches.borders}]", after, maxsplit=1)[0]):
            return False
        part = self.matches.grammar.after
        if match := part.pattern.match(after):
            certain = _SAMPLING in after or "logits_gather" in part.roles_of(match)
            return certain or end < len(letters)
        # Where the recording ends with a copy, that may be a part of the layer.
        certain = end < len(letters) or bool(after.strip(_ASIDE))
        return certain and after[:1] in tuple(_OUTSIDE + _COPY)

    def number_into(self, number: Int64s, count: int, smaller: int) -> None:
        """Numbers the layers of which it is certain which of `count` they are.

        Args:
            smaller: the most layers of passes of another, smaller model on this stream.
        """
        found, known = self.found, self.known
        at_edge = self.first or self.last
        if len(found) == count and (self.begins or self.ends or not at_edge):
            number[known] = np.flatnonzero(found >= 0)
            return
        if not len(known):
            return
        place = self._places()
        if self.begins and self.ends:
            if place is not None and place[-1] + 1 == count:
                number[known] = place
            elif _close(len(found), count):
                self._number_from_ends(number, count)
            return
        cut_off = (self.first and self.ends) or (self.last and self.begins)
        if len(found) > count or not (
            _close(len(found), count) or (cut_off and len(found) > smaller)
        ):
            return
        self._number_from_ends(number, count)

    def _number_from_ends(self, number: Int64s, count: int) -> None:
        """From each end that is there, up to the first damage."""
        found = self.found
        from_begin = min(self._adjacent(found), count) if self.begins else 0
        from_end = min(self._adjacent(found[::-1]), count) if self.ends else 0
        if from_begin + from_end > min(len(found), count):
            return
        number[found[:from_begin]] = np.arange(from_begin)
        number[found[len(found) - from_end :]] = np.arange(count - from_end, count)

    def _places(self) -> Int64s | None:
        """Places of the known layers in the pass, from the first known one on.

        What lies between two of them must be as long as so many whole layers; None where it is
        not.
        """
        start, end = self.matches.start[self.known], self.matches.end[self.known]
        usual = float(np.median(end - start))
        gaps = start[1:] - end[:-1]
        missing = np.rint(gaps / usual).astype(np.int64)
        if (np.abs(gaps - missing * usual) > _ALIKE * usual).any():
            return None
        return np.append(0, np.cumsum(1 + missing))

    def _adjacent(self, found: Int64s) -> int:
        """How many layers from the first on touch each other."""
        if not len(found) or found[0] < 0:
            return 0
        start, end = self.matches.start, self.matches.end
        touching = (found[1:] >= 0) & (
            (end[found[:-1]] == start[found[1:]]) | (end[found[1:]] == start[found[:-1]])
        )
        return int(np.argmin(np.append(touching, False))) + 1


def _groups(matches: _Matches) -> list[_Pass]:
    """The forward passes of a stream: runs of KV-cache writes with no border between them."""
    writes = np.flatnonzero(matches.stream.letter_codes == ord(_KV_WRITE))
    if not len(writes):
        return []
    layer = matches.layer_at(writes)
    ends = np.flatnonzero(_parted(matches, writes, layer)) + 1
    groups = np.split(layer, ends)
    last = len(groups) - 1
    return [_Pass(matches, found, n == 0, n == last) for n, found in enumerate(groups)]


def _parted(matches: _Matches, writes: Int64s, layer: Int64s) -> npt.NDArray[np.bool_]:
    """Whether a pass ends between each KV-cache write and the next one."""
    letters, codes = matches.stream.letters, matches.stream.letter_codes
    borders = np.isin(codes, np.frombuffer(matches.borders.encode(), np.uint8))
    seen = np.cumsum(borders)[writes]
    parted: npt.NDArray[np.bool_] = (np.diff(seen) > 0) | (
        np.diff(matches.stream.step[writes]) != 0
    )
    both = (layer[:-1] >= 0) & (layer[1:] >= 0) & ~parted
    for n in np.flatnonzero(both).tolist():
        begin, end = int(matches.end[layer[n]]), int(matches.start[layer[n + 1]])
        if end > begin:
            between = letters[begin:end]
            parted[n] = not _OF_A_LAYER.search(between) and bool(
                matches.grammar.after.pattern.match(between)
            )
    return parted


def _count(groups: Sequence[_Pass], configured: int | None) -> int | None:
    """Layers of the largest pass that is there from beginning to end.

    Smaller ones are of a model that drafts tokens.
    """
    sizes = {len(group.found) for group in groups if group.is_whole}
    return configured if configured in sizes else max(sizes, default=None)


def _close(size: int, count: int) -> bool:
    return abs(size - count) <= max(1, count // 10)


def _largest_of_another_model(passes: Sequence[_Pass], count: int | None) -> int:
    sizes = [
        len(one.found)
        for one in passes
        if count and not one.first and not one.last and not _close(len(one.found), count)
    ]
    return max((size for size in sizes if size < (count or 0)), default=0)


@dataclass(frozen=True)
class Roles:
    """For each kernel of a stream: its layer and pass (-1 where none) and its role.

    Attributes:
        code: of each kernel's role, its place in `names`; 0 where it has none.
    """

    layer: Int64s
    pass_number: Int64s
    code: Codes
    names: Sequence[str]

    @property
    def role(self) -> npt.NDArray[np.object_]:
        """The role of each kernel; "" where it has none."""
        return np.array(self.names, np.object_)[self.code]


def roles(stream: Stream, found: Layers) -> Roles:
    """Layers spread over their kernels, and the roles of what stands before and after them."""
    total = len(stream.letters)
    layer = np.full(total, -1, np.int64)
    pass_number = np.full(total, -1, np.int64)
    role = np.zeros(total, np.int32)
    for anywhere, name in _ANYWHERE.items():
        role[stream.letter_codes == ord(anywhere)] = _code(name)
    certain = np.flatnonzero(found.number >= 0)
    for start, end, part, rest in _outer_spans(stream, found, certain):
        role[start:end] = _outer_roles(part, rest, stream.letters[start:end])
    for n in certain.tolist():
        start, end = int(found.start[n]), int(found.end[n])
        layer[start:end] = found.number[n]
        pass_number[start:end] = found.pass_number[n]
        role[start:end] = _layer_roles(found.grammar.layer, stream.letters[start:end])
    return Roles(layer, pass_number, role, list(_CODES))


def _outer_spans(
    stream: Stream, found: Layers, certain: Int64s
) -> Sequence[tuple[int, int, Part, str]]:
    """What lies before the first layer of each step that has any, and after the last one.

    With the part of the grammar that names it, and the role of copies and the like that it does
    not name. Between two passes of one step, all belongs to the first one.
    """
    if not len(certain):
        return []
    spans: list[tuple[int, int, Part, str]] = []
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
            first = int(found.start[here[0]])
            spans.append((begin, first, found.grammar.before, "input_prep"))
        for last in here[last_layer[here]].tolist():
            following = found.start[here[here > last]]
            end = int(following[0]) if len(following) else finish
            spans.append((int(found.end[last]), end, found.grammar.after, "sample"))
    return spans


@lru_cache(maxsize=4096)
def _layer_roles(part: Part, letters: str) -> Codes:
    match = part.pattern.fullmatch(letters)
    assert match, letters
    return _codes(part.roles_of(match))


@lru_cache(maxsize=4096)
def _outer_roles(part: Part, rest: str, letters: str) -> Codes:
    """What the part names, in its place; of all else what can only be one thing.

    Matrix products, attention and other work of a model that the grammar does not name have none.
    """
    role = _codes([_ANYWHERE.get(letter, rest if letter in _MOVES else "") for letter in letters])
    if match := part.pattern.search(letters):
        role[match.start() : match.end()] = _codes(part.roles_of(match))
    return role


def _codes(names: Sequence[str]) -> Codes:
    return np.array([_code(name) for name in names], np.int32)


def _code(name: str) -> int:
    return _CODES.setdefault(name, len(_CODES))
