"""Numbers the layers of the forward passes of a stream."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traceql.analysis.layers.forward_passes import Pass
from traceql.analysis.layers.kernel_text import Int64s

# The kernels between two layers may differ from those of whole layers by this share of a layer.
_GAP_TOLERANCE = 0.4
# They give the number of missing layers only if the sizes of layers differ by no more than this.
_SIZE_TOLERANCE = 0.2

# A model drafts at most so many tokens in a step.
_DRAFTS = 16
# Of two sizes, one is the usual one if it occurs so many times as often.
_CLEARLY = 2


@dataclass(frozen=True)
class Layers:
    """The layers of a stream whose number is certain, in the order of the stream.

    Attributes:
        start: the first kernel of each layer.
        end: the kernel after the last one of each layer.
        number: the number of each layer on its rank, from 0.
        pass_number: the forward pass of each layer, from 0.
        count: the number of layers in a complete pass; None if no pass is complete.
        confirmed: the number of complete passes with `count` layers.
    """

    start: Int64s
    end: Int64s
    number: Int64s
    pass_number: Int64s
    count: int | None
    confirmed: int


def numbered(
    passes: Sequence[Pass], *, count: int | None = None, configured: int | None = None
) -> Layers:
    """All layers of a stream whose numbers are certain.

    Args:
        count: the number of layers that the rank holds, if it is known.
        configured: the number of layers in the model's configuration, if it is known. It decides
            if there are passes of this size that may be complete.
    """
    if count is None:
        count = layer_count(passes, configured)
    smaller = _largest_of_another_model(passes, count)
    found = [
        (start, end, number, ordinal)
        for ordinal, one in enumerate(passes)
        if count
        for start, end, number in zip(
            one.start.tolist(),
            one.end.tolist(),
            _numbers(one, count, smaller).tolist(),
            strict=True,
        )
        if number >= 0
    ]
    start, end, number, pass_number = np.array(found, np.int64).reshape(-1, 4).T
    confirmed = _complete_sizes(passes).count(count or 0)
    return Layers(start, end, number, pass_number, count, confirmed)


def layer_count(passes: Sequence[Pass], configured: int | None) -> int | None:
    """The number of layers in a complete pass; None if it is uncertain or no pass is complete.

    Args:
        configured: as of `numbered`.
    """
    return configured if configured in _complete_sizes(passes) else _usual_size(passes)


def _complete_sizes(passes: Sequence[Pass]) -> list[int]:
    return [len(one) for one in passes if one.is_complete]


def _usual_size(passes: Sequence[Pass]) -> int | None:
    """The number of layers of the largest model; None if it is uncertain or no pass is complete.

    Passes in which kernels may be missing confirm each other if they have the same size.
    """
    size = _most_likely_size([one for one in passes if one.is_complete])
    of_size = [one for one in passes if one.is_complete and len(one) == size]
    return size if len(of_size) > 1 or any(one.whole for one in of_size) else None


def _most_likely_size(complete: Sequence[Pass]) -> int | None:
    """The number of layers of the largest model in these passes; None if it is uncertain.

    It is the largest size, unless that may be two passes without the kernels between them, or a
    pass in which layers were recorded twice. If the usual passes of a step are smaller, it is.
    """
    sizes = Counter(_largest_of_each_step(complete))
    largest = max(sizes, default=0)
    rivals = [size for size in sizes if 1 < size < largest and _may_be(largest, size)]
    if not rivals:
        return largest or None
    rival = max(rivals, key=lambda size: (sizes[size], size))
    more_often = sizes[rival] / sizes[largest]
    if all(one.step >= 0 for one in complete):
        is_usual, is_certain = more_often < 1, more_often >= _CLEARLY
    else:
        # The smaller passes may be those of a model that drafts tokens.
        is_usual = more_often <= _DRAFTS and sizes[largest] > _CLEARLY
        is_certain = more_often >= (_CLEARLY if largest % rival == 0 else _CLEARLY * _DRAFTS)
    if is_usual:
        return largest
    return rival if is_certain else None


def _largest_of_each_step(complete: Sequence[Pass]) -> list[int]:
    """The size of the largest pass of each step; those of all passes that have no step."""
    found: dict[int, int] = {}
    for n, one in enumerate(complete):
        step = one.step if one.step >= 0 else -1 - n
        found[step] = max(found.get(step, 0), len(one))
    return list(found.values())


def _may_be(size: int, usual: int) -> bool:
    """Whether a pass of this size may be several passes of the usual one, or a part twice."""
    return size <= 2 * usual or size % usual == 0


def _numbers(one: Pass, count: int, smaller: int) -> Int64s:
    """The number of each layer of a pass; -1 if it is not certain.

    Args:
        count: the number of layers of the model on this rank.
        smaller: the number of layers of the largest other, smaller model on this stream (one that
            drafts tokens); 0 if there is none.
    """
    number = np.full(len(one), -1, np.int64)
    at_edge = one.first or one.last
    if len(one) != count:
        if one.from_begin + one.from_end > len(one):
            return number  # it is unknown which layers are missing
        one = one.certain
    uncertain = int((~one.joined).sum())
    # One anchor may be missing and another one added only where two places are uncertain.
    if len(one) == count and uncertain < 2 and ((one.begins and one.ends) or not at_edge):
        number[one.known] = one.known
        return number
    if one.begins and one.ends:
        place = _places(one)
        if place is not None and place[-1] + 1 == count and one.known[0] == 0:
            number[one.known] = place
            return number
        if not _about(len(one), count):
            return number
    else:
        cut_off = (one.first and one.ends) or (one.last and one.begins)
        may_be = _about(len(one), count) or (cut_off and len(one) > smaller)
        if len(one) > count or not may_be:
            return number
    return _from_ends(one, count, number)


def _from_ends(one: Pass, count: int, number: Int64s) -> Int64s:
    """Numbers the layers from each end of the pass that is there, up to the first damage."""
    from_begin, from_end = min(one.from_begin, count), min(one.from_end, count)
    if from_begin + from_end > min(len(one), count):
        return number
    number[:from_begin] = np.arange(from_begin)
    number[len(one) - from_end :] = np.arange(count - from_end, count)
    return number


def _places(one: Pass) -> Int64s | None:
    """The place of each known layer in the pass, counted from the first known one.

    The number of missing layers between two known ones follows from the number of kernels between
    them. None if this is not near a multiple of a layer's length, or if layers differ in length.
    """
    if not len(one.known):
        return None
    start, end = one.start[one.known], one.end[one.known]
    sizes = end - start
    usual = float(np.median(sizes))
    if (np.abs(sizes - usual) > _SIZE_TOLERANCE * usual).any():
        return None
    gaps = start[1:] - end[:-1]
    missing = np.rint(gaps / usual).astype(np.int64)
    if (np.abs(gaps - missing * usual) > _GAP_TOLERANCE * usual).any():
        return None
    return np.append(0, np.cumsum(1 + missing))


def _about(size: int, count: int) -> bool:
    """Whether a pass of this size may be one of `count` layers, with few missing or too many."""
    return abs(size - count) <= max(1, count // 10)


def _largest_of_another_model(passes: Sequence[Pass], count: int | None) -> int:
    """The size of the largest pass that is clearly smaller than `count` layers; 0 if there is none.

    Passes at the ends of the stream do not count, because the recording may have cut them off.
    """
    sizes = [
        len(one)
        for one in passes
        if count and not one.first and not one.last and not _about(len(one), count)
    ]
    return max((size for size in sizes if size < (count or 0)), default=0)
