"""Numbers the layers of each forward pass on its rank, and those of each rank in the model."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from traceql.analysis.layers.forward_passes import Pass
from traceql.analysis.layers.kernel_text import Int64s

# The kernels between two layers may differ from those of whole layers by this share of a layer.
_GAP_TOLERANCE = 0.4
# They give the number of missing layers only if the sizes of layers differ by no more than this.
_SIZE_TOLERANCE = 0.2

# A model drafts at most this many tokens in a step.
_DRAFTS = 16
# Of two sizes, one is the usual one if it occurs this many times as often.
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


def numbered(passes: Sequence[Pass], count: int | None) -> Layers:
    """All layers of a stream whose numbers are certain.

    Args:
        count: the number of layers that the rank holds; without it, no number is certain.
    """
    # The largest model that is clearly smaller, such as one that drafts tokens. Passes at the ends
    # of the stream do not count, because the recording may have cut them off.
    inner = [len(one) for one in passes if not one.first and not one.last]
    smaller = max((n for n in inner if n < (count or 0) and not _about(n, count or 0)), default=0)
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
    confirmed = sum(one.is_complete and len(one) == count for one in passes)
    return Layers(start, end, number, pass_number, count, confirmed)


def layer_count(passes: Sequence[Pass], configured: int | None) -> int | None:
    """The number of layers in a complete pass; None if it is uncertain or no pass is complete.

    Args:
        configured: the number of layers in the model's configuration, if it is known. It decides
            if there are passes of this size that may be complete.
    """
    complete = [one for one in passes if one.is_complete]
    if configured in [len(one) for one in complete]:
        return configured
    size = _most_likely_size(complete)
    # Passes in which kernels may be missing confirm each other if they have the same size.
    of_size = [one for one in complete if len(one) == size]
    return size if len(of_size) > 1 or any(one.whole for one in of_size) else None


def _most_likely_size(complete: Sequence[Pass]) -> int | None:
    """The number of layers of the largest model in these passes; None if it is uncertain.

    It is the largest size, unless that may be two passes without the kernels between them, or a
    pass in which layers were recorded twice. If the usual passes of a step are smaller, it is.
    """
    largest_of_step: dict[int, int] = {}
    for n, one in enumerate(complete):
        step = one.step if one.step >= 0 else -1 - n  # a pass without a step counts alone
        largest_of_step[step] = max(largest_of_step.get(step, 0), len(one))
    sizes = Counter(largest_of_step.values())
    largest = max(sizes, default=0)
    rivals = [
        size
        for size in sizes
        if 1 < size < largest and (largest <= 2 * size or largest % size == 0)
    ]
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


@dataclass(frozen=True)
class Held:
    """The layers that a rank holds by run.json."""

    first_layer: int
    layers: int


@dataclass(frozen=True)
class Stage:
    """A rank's place in the pipeline; what is unknown is None.

    The number of stages may be known, but not which one this is, or that one, but not their number.

    Attributes:
        stage: the stage of the rank, from 0.
        stages: the number of stages.
        first_layer: the number of the rank's first layer in the whole model.
        source: how this is known, or why it is not.
    """

    stage: int | None
    stages: int | None
    first_layer: int | None
    source: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of the ranks of a run.

    Attributes:
        layers: the number of layers that each rank holds.
        named: the pp_rank of each rank; None if it is not stated.
        named_by: where pp_rank is from: run.json or file names.
        exchanging: the ranks with point-to-point operations outside layers.
        with_logits: the ranks that compute logits.
        world: the number of ranks of the run, loaded or not.
        stated: the number of stages that run.json states; it counts unless the ranks refute it.
        stated_layers: the layers of ranks, loaded or not, that run.json states.
    """

    layers: Mapping[int, int]
    named: Mapping[int, int | None]
    named_by: str
    exchanging: Collection[int]
    with_logits: Collection[int]
    world: int
    stated: int | None = None
    stated_layers: Mapping[int, Held] = field(default_factory=dict)


def stages(known: Evidence) -> dict[int, Stage]:
    """The stage of each rank.

    It is pp_rank if every trace has one. Otherwise, if ranks exchange activations and only some of
    them compute logits, those are the last stage, and stages follow the order of ranks, as in vLLM
    and Megatron-LM. It is unknown if ranks are missing.
    """
    last = max((known.named.get(rank) or 0 for rank in known.layers), default=0)
    on_last = {rank for rank in known.layers if (known.named.get(rank) or 0) == last}
    # A rank that exchanges activations and computes no logits is not on the last stage.
    goes_on = any(rank in known.exchanging and rank not in known.with_logits for rank in on_last)
    is_refuted = (known.stated or 0) <= last or (known.stated == 1 and goes_on)
    stated = None if is_refuted else known.stated
    # run.json may state more stages than are loaded
    least = max(stated or 1, len({held.first_layer for held in known.stated_layers.values()}))
    if known.layers and all(known.named.get(rank) is not None for rank in known.layers):
        is_whole = (
            not on_last.isdisjoint(known.with_logits)
            or len(known.layers) == known.world
            or (last == 0 and not known.exchanging)
        )
        count = last + 1 if is_whole and not goes_on and least <= last + 1 else None
        stage = {rank: known.named[rank] or 0 for rank in known.layers}
        found = _staged(stage, known.layers, stated or count, known.named_by)
    elif stated == 1 or (least == 1 and not known.exchanging):
        source = "run.json" if stated else "no pipeline"
        found = {rank: Stage(0, 1, 0, source) for rank in known.layers}
    else:
        found = _in_order(known.layers, known.with_logits, stated)
    for rank, one in found.items():
        held = known.stated_layers.get(rank)
        if one.first_layer is None and held and held.layers == known.layers[rank]:
            found[rank] = replace(one, first_layer=held.first_layer)
    return found


def _in_order(
    layers: Mapping[int, int], with_logits: Collection[int], stated: int | None
) -> dict[int, Stage]:
    """The stages by the order of ranks, if the ranks with logits show how wide a stage is."""
    last = sorted(with_logits)
    width = len(last)
    whole = width and len(layers) % width == 0 and sorted(layers)[-width:] == last
    count = len(layers) // width if whole else None
    if (
        count in (None, 1)
        or sorted(layers) != list(range(len(layers)))
        or stated not in (None, count)
    ):
        return {rank: Stage(None, stated, None, "unknown pipeline split") for rank in layers}
    return _staged(
        {rank: rank // width for rank in layers},
        layers,
        count,
        "ranks that compute logits, order of ranks",
    )


def _staged(
    stage: Mapping[int, int], layers: Mapping[int, int], count: int | None, source: str
) -> dict[int, Stage]:
    """The stage of each rank with its first layer, if there is a rank of every stage before it."""
    held = {stage[rank]: number for rank, number in layers.items()}
    if count is None:
        source += "; number of stages unknown"
    elif set(held) != set(range(count)):
        source += "; stages missing"
    return {
        rank: Stage(
            own,
            count,
            sum(held[n] for n in range(own)) if all(n in held for n in range(own)) else None,
            source,
        )
        for rank, own in stage.items()
    }
