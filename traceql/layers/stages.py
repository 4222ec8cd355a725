"""Finds the pipeline stage of each rank, and so the layers of the model that it holds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True)
class Held:
    """The layers that run.json says a rank holds."""

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


def stages(
    layers: Mapping[int, int],
    *,
    named: Mapping[int, int | None],
    named_by: str,
    exchanging: Collection[int],
    with_logits: Collection[int],
    world: int,
    stated: int | None = None,
    stated_layers: Mapping[int, Held] = MappingProxyType({}),
) -> dict[int, Stage]:
    """The stage of each rank.

    It is pp_rank if every trace has one. Otherwise, if ranks exchange activations and only some of
    them compute logits, those are the last stage, and stages follow the order of ranks, as in vLLM
    and Megatron-LM. It is unknown if ranks are missing.

    A rank that exchanges activations and computes no logits is not on the last stage, so one stage
    of a pipeline is not taken for all of it.

    Args:
        layers: the number of layers that each rank holds.
        named: the pp_rank of each rank; None if it is not stated.
        named_by: where pp_rank is from: run.json or file names.
        exchanging: the ranks with point-to-point operations outside layers.
        with_logits: the ranks that compute logits.
        world: the number of ranks of the run, loaded or not.
        stated: the number of stages that run.json states; it counts unless the ranks refute it.
        stated_layers: the layers of ranks, loaded or not, that run.json states.
    """
    last = max((named.get(rank) or 0 for rank in layers), default=0)
    goes_on = any(
        rank in exchanging and rank not in with_logits
        for rank in layers
        if (named.get(rank) or 0) == last
    )
    if stated is not None and (stated <= last or (stated == 1 and goes_on)):
        stated = None
    least = max(stated or 1, len({held.first_layer for held in stated_layers.values()}))
    if layers and all(named.get(rank) is not None for rank in layers):
        ends = any(rank in with_logits for rank in layers if named[rank] == last)
        is_whole = ends or len(layers) == world or (last == 0 and not exchanging)
        count = last + 1 if is_whole and not goes_on and least <= last + 1 else None
        stage = {rank: named[rank] or 0 for rank in layers}
        found = _numbered(stage, layers, stated or count, named_by)
    elif stated == 1 or (least == 1 and not exchanging):
        source = "run.json" if stated else "no pipeline"
        found = {rank: Stage(0, 1, 0, source) for rank in layers}
    else:
        found = _in_order(layers, with_logits, stated)
    return {
        rank: _with_layers(one, layers[rank], stated_layers.get(rank))
        for rank, one in found.items()
    }


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
    return _numbered(
        {rank: rank // width for rank in layers},
        layers,
        count,
        "ranks that compute logits, order of ranks",
    )


def _numbered(
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


def _with_layers(stage: Stage, layers: int, stated: Held | None) -> Stage:
    """With the first layer in run.json, if it states as many layers as the rank runs."""
    if stage.first_layer is not None or stated is None or stated.layers != layers:
        return stage
    return replace(stage, first_layer=stated.first_layer)
