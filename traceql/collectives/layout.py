"""Finds the place of each rank in tensor, pipeline and data parallelism."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Literal

from traceql.dialect.facts import ProcessGroup


@dataclass(frozen=True)
class RankPlace:
    """A rank's place in each kind of parallelism, from 0."""

    tp: int
    pp: int
    dp: int


@dataclass(frozen=True)
class Sizes:
    """The size of each kind of parallelism, loaded or not; None if it is not stated."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None

    def all_of(self, world: int) -> RankPlace | None:
        """The sizes, if all are stated and they multiply to the world size."""
        if self.tp is None or self.pp is None or self.dp is None:
            return None
        return (
            RankPlace(self.tp, self.pp, self.dp) if self.tp * self.pp * self.dp == world else None
        )

    def allow(self, size: RankPlace) -> bool:
        return all(getattr(self, k) in (None, getattr(size, k)) for k in ("tp", "pp", "dp"))


@dataclass(frozen=True)
class Layout:
    """The place of each rank, and the size of each kind of parallelism.

    Ranks of one stage that communicate have the places of tensor-parallel ranks, even if they turn
    out to be replicas.

    Attributes:
        tp, pp, dp: the sizes, which include ranks that are not loaded; None if unknown.
        source: the evidence.
        shared: what the ranks of a stage share: the tensors of the model (tensor parallelism) or
            the work (data parallelism); None if that is unknown.
        stages_known: whether the pipeline stages are known.
    """

    places: Mapping[int, RankPlace]
    tp: int | None
    pp: int | None
    dp: int | None
    source: str
    shared: Literal["tensors", "work"] | None = "tensors"
    stages_known: bool = True

    def tp_peers(self, rank: int) -> list[int]:
        """The loaded ranks of the same stage and replica, with this one."""
        own = self.places[rank]
        return [r for r, p in self.places.items() if (p.pp, p.dp) == (own.pp, own.dp)]

    def ep_peers(self, rank: int) -> list[int]:
        """The loaded ranks of the same stage, across replicas; they share the experts."""
        return [r for r, p in self.places.items() if p.pp == self.places[rank].pp]

    def stage_peer(self, rank: int, step: int) -> int | None:
        """The rank with the same place `step` pipeline stages later; None if it is not loaded."""
        own = self.places[rank]
        wanted = RankPlace(own.tp, own.pp + step, own.dp)
        return next((r for r, p in self.places.items() if p == wanted), None)


@dataclass(frozen=True)
class RankFacts:
    """The evidence for the place of a rank.

    Attributes:
        named: the place in the name of its file; None if the name has none.
        stage: the pipeline stage, from the layers that it runs; None if it is unknown.
        groups: the process groups that its file lists, with ranks of the run.
        stages: the number of pipeline stages, if the stage is known; None if the number is unknown.
    """

    rank: int
    world_size: int | None
    named: RankPlace | None
    stage: int | None
    groups: Sequence[ProcessGroup]
    stages: int | None = None


def found_layout(
    ranks: Sequence[RankFacts],
    of_run: Mapping[int, RankPlace],
    *,
    reduces_layers: bool,
    reduces_gradients: bool,
    tensor_ranks: int | None = None,
    stated: Sizes = Sizes(),
) -> Layout:
    """The layout by the best evidence: run.json, file names, process groups or operations.

    Process groups without a description tell which ranks communicate, but not for what purpose.

    Args:
        ranks: the evidence for each rank, in the order of ranks.
        of_run: the places that run.json states.
        reduces_layers: whether there are all-reduces inside layers, which mean tensor parallelism.
        reduces_gradients: whether gradients are averaged across replicas, which means data
            parallelism.
        tensor_ranks: how many ranks tensor-parallel operations say to have; None if unknown.
        stated: the sizes that run.json states; operations and places refute them.
    """
    world = max((one.world_size or 0 for one in ranks), default=0)

    def may_be(tp: int) -> bool:
        return tp == tensor_ranks if tensor_ranks else tp > 1 or not reduces_layers

    if ranks and all(one.rank in of_run for one in ranks):
        # of all ranks, loaded or not
        layout = _sized(dict(of_run), world, {}, "run.json", may_be, stated)
        return replace(layout, places={one.rank: of_run[one.rank] for one in ranks})
    listed = {one.rank: one.groups for one in ranks}
    named = {one.rank: one.named for one in ranks if one.named is not None}
    if ranks and len(named) == len(ranks):
        return _sized(named, world, listed, "file names", may_be, stated)
    described = _by_descriptions(listed, world)
    if described is not None:
        return described
    size = stated.all_of(world)
    size = size if size and may_be(size.tp) else None
    if size and (placed := _along_one(ranks, size)):
        return Layout(placed, size.tp, size.pp, size.dp, "run.json")
    staged = {one.rank: one.stage or 0 for one in ranks}
    stages = _stages(ranks)
    groups = {rank: _tensor_group(rank, listed[rank], staged) for rank in listed}
    if ranks and all(groups.values()):
        layout = _by_groups(staged, stages, groups, world, "process groups of distributedInfo")
    else:
        layout = _by_stages(staged, stages, world)
    stages_known = all(one.stage is not None for one in ranks) or world <= 1
    layout = replace(layout, stages_known=stages_known)
    is_other = size is not None and (layout.tp, layout.pp, layout.dp) != (size.tp, size.pp, size.dp)
    if not is_other and (layout.tp == layout.dp == 1 or reduces_layers):
        return layout
    if not is_other and reduces_gradients and all(map(_is_one_group, listed.values())):
        source = f"{layout.source}, DistributedDataParallel"
        return replace(layout, shared="work", stages_known=True, source=source)
    return replace(layout, shared=None, source=f"{layout.source}; kind of parallelism unknown")


def _sized(
    places: dict[int, RankPlace],
    world: int,
    listed: Mapping[int, Sequence[ProcessGroup]],
    source: str,
    may_be: Callable[[int], bool],
    stated: Sizes,
) -> Layout:
    """A layout with these places, and with sizes for which the places give the ranks.

    rank = (dp x pp_size + pp) x tp_size + tp, as vLLM counts ranks, unless run.json states all
    sizes. If no sizes fit, each place must have its rank. A size is unknown if several fit the
    ranks, the process groups that the files list, the operations, and what run.json states.

    Args:
        may_be: whether operations allow a number of tensor-parallel ranks.
        stated: the sizes that run.json states.
    """
    least = RankPlace(
        *(1 + max(getattr(p, k) for p in places.values()) for k in ("tp", "pp", "dp"))
    )
    divisors = _divisors(world)
    fitting = [
        size
        for tp in divisors
        for pp in divisors
        if tp >= least.tp and pp >= least.pp
        if world % (tp * pp) == 0 and world // (tp * pp) >= least.dp
        for size in [RankPlace(tp, pp, world // (tp * pp))]
        if all(r == (p.dp * size.pp + p.pp) * size.tp + p.tp for r, p in places.items())
    ]
    if not fitting and len(set(places.values())) == least.tp * least.pp * least.dp:
        fitting = [least]
    whole = stated.all_of(world)
    if whole and may_be(whole.tp) and whole not in fitting and _covers(whole, least):
        fitting = [whole]  # its ranks have another order
    fitting = [size for size in fitting if may_be(size.tp)] or fitting
    fitting = [
        size
        for size in fitting
        if all(
            _has_groups_of(size, rank, place, listed.get(rank, ()), world)
            for rank, place in places.items()
        )
    ] or fitting
    fitting = [size for size in fitting if stated.allow(size)] or fitting
    tp, pp, dp = (_only({getattr(size, k) for size in fitting}) for k in ("tp", "pp", "dp"))
    return Layout(places, tp, pp, dp, source)


def _has_groups_of(
    size: RankPlace, rank: int, place: RankPlace, listed: Iterable[ProcessGroup], world: int
) -> bool:
    """Whether sizes need the process groups that the file of a rank lists, and no others.

    They are the ranks that differ in one place only, those of a stage, and all.
    """
    groups = {tuple(sorted(group.ranks)) for group in listed if len(group.ranks) > 1}
    if not groups:
        return True
    strides = (
        (place.tp, size.tp, 1),
        (place.pp, size.pp, size.tp),
        (place.dp, size.dp, size.tp * size.pp),
    )
    needed = [range(rank - at * by, rank + (count - at) * by, by) for at, count, by in strides]
    longest = max(map(len, groups))
    if any(len(one) > longest for one in needed):
        return False
    own = {tuple(one) for one in needed if len(one) > 1}
    return own <= groups and all(
        len(group) == world
        or (
            len(group) == size.tp * size.dp
            and {other // size.tp % size.pp for other in group} == {place.pp}
        )
        for group in groups - own
    )


def _covers(size: RankPlace, least: RankPlace) -> bool:
    return size.tp >= least.tp and size.pp >= least.pp and size.dp >= least.dp


def _along_one(ranks: Sequence[RankFacts], size: RankPlace) -> dict[int, RankPlace] | None:
    """The places if there is only one kind of parallelism: then they are the numbers of the ranks.

    None if there are several kinds, or a rank has another stage.
    """
    if sorted((size.tp, size.pp, size.dp))[:2] != [1, 1]:
        return None
    places = {
        one.rank: RankPlace(
            tp=one.rank if size.tp > 1 else 0,
            pp=one.rank if size.pp > 1 else 0,
            dp=one.rank if size.dp > 1 else 0,
        )
        for one in ranks
    }
    is_other = any(one.stage not in (None, places[one.rank].pp) for one in ranks)
    is_beyond = any(one.rank >= max(size.tp, size.pp, size.dp) for one in ranks)
    return None if is_other or is_beyond else places


def _stages(ranks: Sequence[RankFacts]) -> int | None:
    """The number of stages; 1 if no rank has a stage, None if nobody knows how many there are."""
    if all(one.stage is None for one in ranks):
        return 1
    return max((one.stages or 0 for one in ranks), default=1) or None


def _only(sizes: set[int]) -> int | None:
    return sizes.pop() if len(sizes) == 1 else None


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


# The descriptions that Megatron-LM and the device meshes of PyTorch give to process groups.
_DESCRIPTIONS = {
    "tp": re.compile(r"^(mesh_)?(tp|tensor(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "pp": re.compile(r"^(mesh_)?(pp|pipeline(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "dp": re.compile(r"^(mesh_)?(dp|ddp|fsdp|data_parallel(_group)?)$", re.IGNORECASE),
}


def _by_descriptions(listed: Mapping[int, Sequence[ProcessGroup]], world: int) -> Layout | None:
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


def _tensor_group(
    rank: int, listed: Iterable[ProcessGroup], staged: Mapping[int, int]
) -> list[int]:
    """The smallest process group of the rank with consecutive ranks of one pipeline stage.

    Only the rank itself if it has no such group; empty if its file lists no groups.
    """
    groups = [group.ranks for group in listed]
    whole = [g for g in groups if len(g) > 1 and rank in g and g == list(range(g[0], g[-1] + 1))]
    one_stage = [g for g in whole if len({staged.get(r, staged[rank]) for r in g}) == 1]
    return min(one_stage, key=len, default=[rank] if groups else [])


def _by_groups(
    staged: Mapping[int, int],
    stages: int | None,
    groups: Mapping[int, list[int]],
    world: int,
    source: str,
) -> Layout:
    """The layout by the stage and the tensor-parallel group of each rank."""
    width = max(map(len, groups.values()))
    replicas = sorted({(staged[rank], groups[rank][0]) for rank in staged})
    places = {}
    for rank, stage in staged.items():
        first = groups[rank][0]
        of_stage = [start for at, start in replicas if at == stage]
        places[rank] = RankPlace(tp=rank - first, pp=stage, dp=of_stage.index(first))
    replicas_in_run = max(1, world // (width * stages)) if stages else None
    return Layout(places, width, stages, replicas_in_run, source)


def _by_stages(staged: Mapping[int, int], stages: int | None, world: int) -> Layout:
    """The layout if nothing is known but stages: the ranks of one stage share its layers."""
    places = {
        rank: RankPlace(
            tp=_position(rank, (r for r in staged if staged[r] == stage)), pp=stage, dp=0
        )
        for rank, stage in staged.items()
    }
    source = "ranks of the run" if stages == 1 else "pattern of operations"
    return Layout(places, max(1, world // stages) if stages else None, stages, 1, source)


def _position(rank: int, ranks: Iterable[int]) -> int:
    return sorted(ranks).index(rank)


def _is_one_group(listed: Iterable[ProcessGroup]) -> bool:
    """Whether all process groups of more than one rank have the same ranks, and there is one."""
    return len({tuple(group.ranks) for group in listed if len(group.ranks) > 1}) == 1
