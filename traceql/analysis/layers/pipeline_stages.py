"""Finds the pipeline stage of each rank, and so the layers of the model that it holds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace


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

    A rank that exchanges activations and computes no logits is not on the last stage, so one stage
    of a pipeline is not taken for all of it.
    """
    stated = _unrefuted(known)
    # run.json may state more stages than are loaded
    least = max(stated or 1, len({held.first_layer for held in known.stated_layers.values()}))
    if known.layers and all(known.named.get(rank) is not None for rank in known.layers):
        found = _by_names(known, stated, least)
    elif stated == 1 or (least == 1 and not known.exchanging):
        source = "run.json" if stated else "no pipeline"
        found = {rank: Stage(0, 1, 0, source) for rank in known.layers}
    else:
        found = _in_order(known.layers, known.with_logits, stated)
    return {
        rank: _with_layers(one, known.layers[rank], known.stated_layers.get(rank))
        for rank, one in found.items()
    }


def _unrefuted(known: Evidence) -> int | None:
    """The number of stages that run.json states, unless the ranks show that there are more."""
    if known.stated is None or known.stated <= _last_named(known):
        return None
    return None if known.stated == 1 and _goes_on(known) else known.stated


def _by_names(known: Evidence, stated: int | None, least: int) -> dict[int, Stage]:
    """The stages that names or run.json state for all ranks; the last one may be missing.

    Args:
        stated: the number of stages that run.json states, unless the ranks refute it.
        least: the number of stages that there are at least.
    """
    last = _last_named(known)
    has_logits = any(rank in known.with_logits for rank in _on_last_named(known))
    is_alone = last == 0 and not known.exchanging
    is_whole = has_logits or len(known.layers) == known.world or is_alone
    count = last + 1 if is_whole and not _goes_on(known) and least <= last + 1 else None
    stage = {rank: known.named[rank] or 0 for rank in known.layers}
    return _numbered(stage, known.layers, stated or count, known.named_by)


def _goes_on(known: Evidence) -> bool:
    """Whether the pipeline has a stage after the last one that is named."""
    return any(
        rank in known.exchanging and rank not in known.with_logits for rank in _on_last_named(known)
    )


def _on_last_named(known: Evidence) -> list[int]:
    last = _last_named(known)
    return [rank for rank in known.layers if (known.named.get(rank) or 0) == last]


def _last_named(known: Evidence) -> int:
    """The highest pp_rank; 0 if none is stated."""
    return max((known.named.get(rank) or 0 for rank in known.layers), default=0)


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
