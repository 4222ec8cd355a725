"""Finds layers and roles on one stream by the order of its kernels.

The kernels of a stream are a text with one letter per kernel, that of its symbol. A layer is a
match of a family's regular expression in this text. Matches are grouped into forward passes,
numbered within their pass, and then give their kernels a layer and a role.

In arrays of matches, a match is known by its index, and -1 means that there is none. The roles of a
layer are worked out once for each distinct text of a layer, because layers repeat.
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
_CODES = {"": 0}  # a number for each role; it grows as roles are met
_KV_WRITE = letter("kv_write")
# Two forward passes are separated by a new step, or by one of these kernels.
_BORDERS = letters(Trait.BETWEEN_PASSES)
# So does this kernel, unless the layers themselves use it to exchange tokens with other ranks.
_STAGE_BORDER = letter("point_to_point")
_SAMPLING, _LOOKUP, _COPY = letter("sampling"), letter("lookup"), letter("copy")
_OUTSIDE = letters(Trait.OUTSIDE_LAYERS)
_BESIDE = letters(Trait.BESIDE_LAYERS)
_INSIDE = re.compile(f"[{letters(Trait.INSIDE_LAYERS)}]")
_ROLE_OUTSIDE = {s.letter: s.role_outside_layers for s in symbols() if s.role_outside_layers}
_MOVES_DATA = letters(Trait.MOVES_DATA)
# The kernels between two layers may differ from those of whole layers by this share of a layer.
_GAP_TOLERANCE = 0.4


@dataclass(frozen=True)
class Stream:
    """The kernels of one stream of one rank, in the order of their starts.

    Attributes:
        letters: one letter per kernel, that of its symbol.
        step: the step_id of each kernel; -1 if it has none.
    """

    letters: str
    step: Int64s

    @cached_property
    def _step_starts(self) -> Int64s:
        return np.append(0, np.flatnonzero(np.diff(self.step)) + 1)

    def step_bounds(self, at: int) -> tuple[int, int]:
        """The step that the kernel `at` is in: its first kernel, and the kernel after its last."""
        place = int(np.searchsorted(self._step_starts, at, side="right"))
        starts = self._step_starts
        end = int(starts[place]) if place < len(starts) else len(self.letters)
        return int(starts[place - 1]), end

    @cached_property
    def letter_codes(self) -> npt.NDArray[np.uint8]:
        """The letters as an array of ASCII codes."""
        return np.frombuffer(self.letters.encode("ascii"), np.uint8)


@dataclass(frozen=True)
class Layers:
    """The layers that were found on a stream, in the order of the stream.

    Attributes:
        start: the first kernel of each layer.
        end: the kernel after the last one of each layer.
        number: the number of each layer on its rank, from 0; -1 if it is not certain.
        pass_number: the forward pass of each layer, from 0; -1 if it is in none.
        count: the number of layers in a complete pass; None if no pass is complete.
    """

    grammar: Grammar
    start: Int64s
    end: Int64s
    number: Int64s
    pass_number: Int64s
    count: int | None

    @property
    def explained(self) -> int:
        """The number of kernels in layers whose number is certain."""
        return int((self.end - self.start)[self.number >= 0].sum())


@dataclass(frozen=True)
class _Matches:
    """All matches of a grammar's layer on a stream.

    Attributes:
        start: the first kernel of each match.
        end: the kernel after the last one of each match.
    """

    stream: Stream
    grammar: Grammar
    start: Int64s
    end: Int64s

    @cached_property
    def borders(self) -> str:
        """The letters of kernels that separate passes.

        Point-to-point kernels are among them, unless layers contain such kernels.
        """
        exchanges = np.flatnonzero(self.stream.letter_codes == ord(_STAGE_BORDER))
        in_layers = (self.match_at(exchanges) >= 0).any()
        return _BORDERS if in_layers else _BORDERS + _STAGE_BORDER

    def match_at(self, kernels: Int64s) -> Int64s:
        """The match that contains each of these kernels; -1 if none does."""
        if not len(self.start):
            return np.full(len(kernels), -1, np.int64)
        match = np.searchsorted(self.start, kernels, side="right") - 1
        return np.where((match >= 0) & (kernels < self.end[match]), match, -1)


def layers(
    stream: Stream, grammar: Grammar, *, count: int | None = None, configured: int | None = None
) -> Layers:
    """All layers of a stream that match the grammar, numbered if it is certain which ones they are.

    Args:
        count: the number of layers that the rank holds, if it is known.
        configured: the number of layers in the model's configuration, if it is known. It decides
            only if there are complete passes of several sizes.
    """
    spans = [m.span() for m in grammar.layer.pattern.finditer(stream.letters)]
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    matches = _Matches(stream, grammar, start, end)
    separated = _separated_passes(matches)
    count = count or _layer_count(separated, configured)
    number = np.full(len(start), -1, np.int64)
    pass_number = np.full(len(start), -1, np.int64)
    passes = [one for several in separated for one in several.split(count)]
    smaller = _largest_of_another_model(passes, count)
    for ordinal, one in enumerate(passes):
        pass_number[one.known] = ordinal
        if count:
            one.number_into(number, count, smaller)
    return Layers(grammar, start, end, number, pass_number, count)


@dataclass(frozen=True)
class _Pass:
    """One forward pass, which has one KV-cache write for each of its layers.

    Attributes:
        found: the match that contains each KV-cache write; -1 if none does, because a kernel of
            the layer is missing or unknown.
        first: whether it is the first pass of the stream: the recording may have begun within it.
        last: whether it is the last pass of the stream: the recording may have ended within it.
    """

    matches: _Matches
    found: Int64s
    first: bool
    last: bool

    @cached_property
    def known(self) -> Int64s:
        """The matches of the pass, without the layers that have none."""
        return self.found[self.found >= 0]

    def split(self, count: int | None) -> "Sequence[_Pass]":
        """The passes of `count` layers that it consists of, if it is a multiple of them.

        Such passes follow each other directly, with nothing that separates them.
        """
        if not count or len(self.found) == count or len(self.found) % count:
            return [self]
        parts = np.split(self.found, len(self.found) // count)
        return [_Pass(self.matches, part, False, False) for part in parts]

    @property
    def is_complete(self) -> bool:
        """Whether all its layers match and touch, and what precedes and follows them is there."""
        return self._adjacent(self.found) == len(self.found) and self.begins and self.ends

    @cached_property
    def begins(self) -> bool:
        """Whether the kernels before its first layer are there and are not part of a layer."""
        first = self.found[0]
        if first < 0:
            return False
        at = int(self.matches.start[first])
        begin = self.matches.stream.step_bounds(at)[0]
        begin = max(begin, int(self.matches.end[first - 1]) if first else 0)
        before = self.matches.stream.letters[begin:at]
        outside = max(before.rfind(letter) for letter in self.matches.borders + _LOOKUP) + 1
        between = before[outside:]
        ends_outside = before.rstrip(_BESIDE)[-1:] in tuple(_OUTSIDE)
        return ends_outside and not _INSIDE.search(between)

    @cached_property
    def ends(self) -> bool:
        """Whether the kernels after its last layer are there and are not part of a layer.

        The final norm and the logits look like the beginning of a layer. So if the recording ends
        with this step, sampling or an exchange of logits must follow them.
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
        if _INSIDE.search(re.split(f"[{self.matches.borders}]", after, maxsplit=1)[0]):
            return False
        part = self.matches.grammar.after
        if match := part.pattern.match(after):
            certain = _SAMPLING in after or "logits_gather" in part.roles_of(match)
            return certain or end < len(letters)
        # If the recording ends with a copy, the copy may be part of the layer.
        certain = end < len(letters) or bool(after.strip(_BESIDE))
        return certain and after[:1] in tuple(_OUTSIDE + _COPY)

    def number_into(self, number: Int64s, count: int, smaller: int) -> None:
        """Writes the numbers of those layers for which they are certain into `number`.

        Args:
            number: the number of each match of the stream, to be filled.
            count: the number of layers of the model on this rank.
            smaller: the number of layers of the largest other, smaller model on this stream (one
                that drafts tokens); 0 if there is none.
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
            elif _about(len(found), count):
                self._number_from_ends(number, count)
            return
        cut_off = (self.first and self.ends) or (self.last and self.begins)
        if len(found) > count or not (
            _about(len(found), count) or (cut_off and len(found) > smaller)
        ):
            return
        self._number_from_ends(number, count)

    def _number_from_ends(self, number: Int64s, count: int) -> None:
        """Numbers the layers from each end of the pass that is there, up to the first damage."""
        found = self.found
        from_begin = min(self._adjacent(found), count) if self.begins else 0
        from_end = min(self._adjacent(found[::-1]), count) if self.ends else 0
        if from_begin + from_end > min(len(found), count):
            return
        number[found[:from_begin]] = np.arange(from_begin)
        number[found[len(found) - from_end :]] = np.arange(count - from_end, count)

    def _places(self) -> Int64s | None:
        """The place of each known layer in the pass, counted from the first known one.

        The number of missing layers between two known ones follows from the number of kernels
        between them. None if this is not near a multiple of a layer's length.
        """
        start, end = self.matches.start[self.known], self.matches.end[self.known]
        usual = float(np.median(end - start))
        gaps = start[1:] - end[:-1]
        missing = np.rint(gaps / usual).astype(np.int64)
        if (np.abs(gaps - missing * usual) > _GAP_TOLERANCE * usual).any():
            return None
        return np.append(0, np.cumsum(1 + missing))

    def _adjacent(self, found: Int64s) -> int:
        """The number of matches, from the first one on, that touch each other without a gap.

        Works in both directions: `found` may be reversed.
        """
        if not len(found) or found[0] < 0:
            return 0
        start, end = self.matches.start, self.matches.end
        touching = (found[1:] >= 0) & (
            (end[found[:-1]] == start[found[1:]]) | (end[found[1:]] == start[found[:-1]])
        )
        return int(np.argmin(np.append(touching, False))) + 1


def _separated_passes(matches: _Matches) -> list[_Pass]:
    """The forward passes of a stream: its KV-cache writes, split wherever a pass ends."""
    writes = np.flatnonzero(matches.stream.letter_codes == ord(_KV_WRITE))
    if not len(writes):
        return []
    match = matches.match_at(writes)
    ends = np.flatnonzero(_separated(matches, writes, match)) + 1
    passes = np.split(match, ends)
    last = len(passes) - 1
    return [_Pass(matches, found, n == 0, n == last) for n, found in enumerate(passes)]


def _separated(matches: _Matches, writes: Int64s, match: Int64s) -> npt.NDArray[np.bool_]:
    """Whether a pass ends between each KV-cache write and the next one.

    It does if a border or a new step is between them, or if the kernels between their two layers
    are those that follow the last layer.

    Args:
        writes: the KV-cache writes.
        match: the match that contains each of them; -1 if none does.
    """
    letters, codes = matches.stream.letters, matches.stream.letter_codes
    borders = np.isin(codes, np.frombuffer(matches.borders.encode(), np.uint8))
    seen = np.cumsum(borders)[writes]
    separated: npt.NDArray[np.bool_] = (np.diff(seen) > 0) | (
        np.diff(matches.stream.step[writes]) != 0
    )
    undecided = (match[:-1] >= 0) & (match[1:] >= 0) & ~separated
    for n in np.flatnonzero(undecided).tolist():
        begin, end = int(matches.end[match[n]]), int(matches.start[match[n + 1]])
        if end > begin:
            between = letters[begin:end]
            separated[n] = not _INSIDE.search(between) and bool(
                matches.grammar.after.pattern.match(between)
            )
    return separated


def _layer_count(passes: Sequence[_Pass], configured: int | None) -> int | None:
    """The number of layers in the largest complete pass; None if no pass is complete.

    Smaller passes are those of a model that drafts tokens. If one of the sizes is the configured
    number, it is taken instead.
    """
    sizes = {len(one.found) for one in passes if one.is_complete}
    return configured if configured in sizes else max(sizes, default=None)


def _about(size: int, count: int) -> bool:
    """Whether a pass of this size may be one of `count` layers, with few missing or too many."""
    return abs(size - count) <= max(1, count // 10)


def _largest_of_another_model(passes: Sequence[_Pass], count: int | None) -> int:
    """The size of the largest pass that is clearly smaller than `count` layers; 0 if there is none.

    Passes at the ends of the stream do not count, because the recording may have cut them off.
    """
    sizes = [
        len(one.found)
        for one in passes
        if count and not one.first and not one.last and not _about(len(one.found), count)
    ]
    return max((size for size in sizes if size < (count or 0)), default=0)


@dataclass(frozen=True)
class Roles:
    """The layer, the pass and the role of each kernel of a stream.

    Attributes:
        layer: the number of the kernel's layer on its rank; -1 outside layers.
        pass_number: the number of the forward pass; -1 outside layers.
        code: the index of the kernel's role in `names`; 0 if it has none.
        names: the names of roles; "" at index 0.
    """

    layer: Int64s
    pass_number: Int64s
    code: Codes
    names: Sequence[str]

    @property
    def role(self) -> npt.NDArray[np.object_]:
        """The role of each kernel; "" if it has none."""
        return np.array(self.names, np.object_)[self.code]


def roles(stream: Stream, found: Layers) -> Roles:
    """The layer and role of each kernel, from the layers that were found on the stream.

    It includes the roles of kernels before and after the layers.
    """
    total = len(stream.letters)
    layer = np.full(total, -1, np.int64)
    pass_number = np.full(total, -1, np.int64)
    role = np.zeros(total, np.int32)
    for outside, name in _ROLE_OUTSIDE.items():
        role[stream.letter_codes == ord(outside)] = _code(name)
    certain = np.flatnonzero(found.number >= 0)
    for start, end, part, unnamed in _outer_spans(stream, found, certain):
        role[start:end] = _outer_roles(part, unnamed, stream.letters[start:end])
    for n in certain.tolist():
        start, end = int(found.start[n]), int(found.end[n])
        layer[start:end] = found.number[n]
        pass_number[start:end] = found.pass_number[n]
        role[start:end] = _layer_roles(found.grammar.layer, stream.letters[start:end])
    return Roles(layer, pass_number, role, list(_CODES))


def _outer_spans(
    stream: Stream, found: Layers, certain: Int64s
) -> Sequence[tuple[int, int, Part, str]]:
    """The kernels before the first layer and after the last layer of the passes in each step.

    Each is (first kernel, kernel after the last one, part of the grammar that names their roles,
    role of copies and other kernels of trait MOVES_DATA that the part does not name). Kernels
    between two passes of one step belong to what follows the first one.

    Args:
        certain: the layers of `found` whose numbers are certain.
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
    """The role of each kernel of a layer with these letters."""
    match = part.pattern.fullmatch(letters)
    assert match, letters
    return _codes(part.roles_of(match))


@lru_cache(maxsize=4096)
def _outer_roles(part: Part, unnamed: str, letters: str) -> Codes:
    """The role of each kernel outside layers, for kernels with these letters.

    It is what the part names for the kernel, else the role of its symbol outside layers, else
    `unnamed` if the kernel moves data. Matrix products, attention and other work of a model that
    the part does not name have no role.
    """
    role = _codes(
        [_ROLE_OUTSIDE.get(letter, unnamed if letter in _MOVES_DATA else "") for letter in letters]
    )
    if match := part.pattern.search(letters):
        role[match.start() : match.end()] = _codes(part.roles_of(match))
    return role


def _codes(names: Sequence[str]) -> Codes:
    """The number of each of these roles."""
    return np.array([_code(name) for name in names], np.int32)


def _code(name: str) -> int:
    """The number of a role, which is the same in every call."""
    return _CODES.setdefault(name, len(_CODES))
