"""Finds the pipeline stage of each rank, and so the layers of the model that it holds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A rank's place in the pipeline; what is unknown is None.

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
) -> dict[int, Stage]:
    """The stage of each rank.

    It is pp_rank if every trace has one. Otherwise, if ranks exchange activations and only some of
    them compute logits, those are the last stage, and stages follow the order of ranks, as in vLLM
    and Megatron-LM. It is unknown if ranks are missing.

    Args:
        layers: the number of layers that each rank holds.
        named: the pp_rank of each rank; None if it is not stated.
        named_by: where pp_rank is from: run.json or file names.
        exchanging: the ranks with point-to-point operations outside layers.
        with_logits: the ranks that compute logits.
    """
    if layers and all(named.get(rank) is not None for rank in layers):
        stage = {rank: named[rank] or 0 for rank in layers}
        return _numbered(stage, layers, named_by)
    if not exchanging:
        return {rank: Stage(0, 1, 0, "no pipeline") for rank in layers}
    last = sorted(with_logits)
    width = len(last)
    whole = width and len(layers) % width == 0 and sorted(layers)[-width:] == last
    if not whole or width == len(layers) or sorted(layers) != list(range(len(layers))):
        return {rank: Stage(None, None, None, "unknown pipeline split") for rank in layers}
    return _numbered(
        {rank: rank // width for rank in layers},
        layers,
        "ranks that compute logits, order of ranks",
    )


def _numbered(stage: Mapping[int, int], layers: Mapping[int, int], source: str) -> dict[int, Stage]:
    """The stage of each rank with its first layer, if there is a rank of every stage."""
    held = {stage[rank]: count for rank, count in layers.items()}
    count = max(held) + 1
    if set(held) != set(range(count)):
        return {
            rank: Stage(stage[rank], None, None, f"{source}; stages missing") for rank in layers
        }
    first = {number: sum(held[n] for n in range(number)) for number in held}
    return {rank: Stage(stage[rank], count, first[stage[rank]], source) for rank in layers}
