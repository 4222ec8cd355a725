"""Which pipeline stage each rank is, and so which layers of the model it holds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A rank's place in the pipeline; None where it is not known."""

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
    """A Stage for each rank.

    From pp_rank if every trace has one, else from the pattern: if ranks exchange activations and
    only some compute logits, these are the last stage, and stages follow each other in the order of
    ranks, as vLLM and Megatron lay them out. Unknown if ranks are missing.

    Args:
        layers: how many layers each rank holds.
        named: pp_rank of each rank.
        named_by: where that was read: run.json or file names.
        exchanging: ranks with point-to-point operations outside layers.
        with_logits: ranks that compute logits.
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
        {rank: rank // width for rank in layers}, layers, "who computes logits, order of ranks"
    )


def _numbered(stage: Mapping[int, int], layers: Mapping[int, int], source: str) -> dict[int, Stage]:
    held = {stage[rank]: count for rank, count in layers.items()}
    count = max(held) + 1
    if set(held) != set(range(count)):
        return {
            rank: Stage(stage[rank], None, None, f"{source}; stages missing") for rank in layers
        }
    first = {number: sum(held[n] for n in range(number)) for number in held}
    return {rank: Stage(stage[rank], count, first[stage[rank]], source) for rank in layers}
