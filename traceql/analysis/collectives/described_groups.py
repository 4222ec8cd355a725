"""Places by the purposes of process groups, which Megatron-LM and PyTorch's meshes describe."""

import re
from collections.abc import Iterable, Mapping, Sequence

from traceql.analysis.collectives.layout import Layout, RankPlace
from traceql.readers.dialects.facts import ProcessGroup

# The descriptions that Megatron-LM and the device meshes of PyTorch give to process groups.
_DESCRIPTIONS = {
    "tp": re.compile(r"^(mesh_)?(tp|tensor(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "pp": re.compile(r"^(mesh_)?(pp|pipeline(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "dp": re.compile(r"^(mesh_)?(dp|ddp|fsdp|data_parallel(_group)?)$", re.IGNORECASE),
}


def by_descriptions(listed: Mapping[int, Sequence[ProcessGroup]], world: int) -> Layout | None:
    """The layout by the descriptions of process groups.

    None if, for any rank, the sizes of the described groups do not multiply to the world size.
    """
    places, sizes = {}, set()
    for rank, groups in listed.items():
        own = {kind: _described(rank, groups, kind) for kind in _DESCRIPTIONS}
        size = RankPlace(**{kind: len(ranks) for kind, ranks in own.items()})
        if world <= 1 or size.tp * size.pp * size.dp != world:
            return None
        places[rank] = RankPlace(**{kind: ranks.index(rank) for kind, ranks in own.items()})
        sizes.add(size)
    if len(sizes) != 1:
        return None
    size = sizes.pop()
    return Layout(places, size.tp, size.pp, size.dp, "descriptions of process groups")


def _described(rank: int, groups: Iterable[ProcessGroup], kind: str) -> list[int]:
    """A rank's process group of one kind of parallelism; only the rank itself if it has none."""
    return next(
        (g.ranks for g in groups if rank in g.ranks and _DESCRIPTIONS[kind].match(g.description)),
        [rank],
    )
