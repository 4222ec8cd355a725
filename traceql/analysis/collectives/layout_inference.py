"""Infers the position of each rank in the parallelism, by the best evidence.

In this order: run.json, file names, the purposes of process groups, sizes in run.json, and the
order of ranks within pipeline stages and process groups.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isqrt

from traceql.analysis.collectives.layout import Layout, Operations, RankFacts, RankPosition, Sizes
from traceql.readers.dialects.facts import ProcessGroup

# The descriptions that Megatron-LM and the device meshes of PyTorch give to process groups.
_DESCRIPTIONS = {
    "tp": re.compile(r"^(mesh_)?(tp|tensor(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "pp": re.compile(r"^(mesh_)?(pp|pipeline(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "dp": re.compile(r"^(mesh_)?(dp|ddp|fsdp|data_parallel(_group)?)$", re.IGNORECASE),
}


def inferred_layout(
    ranks: Sequence[RankFacts],
    of_run: Mapping[int, RankPosition],
    operations: Operations,
    stated: Sizes,
) -> Layout:
    """The layout by the best evidence: run.json, file names, process groups or operations.

    Args:
        ranks: the evidence for each rank, in the order of ranks.
        of_run: the places that run.json states.
        operations: the evidence in the operations of the run.
        stated: the sizes that run.json states; operations and places refute them.
    """
    if any(one.replica is not None for one in ranks):
        return _of_replicas(ranks, operations)
    world = max((one.world_size or 0 for one in ranks), default=0)
    if ranks and all(one.rank in of_run for one in ranks):
        # of all ranks, loaded or not
        layout = _by_positions(of_run, world, {}, "run.json", operations, stated)
        return replace(layout, places={one.rank: of_run[one.rank] for one in ranks})
    named = {one.rank: one.named for one in ranks if one.named is not None}
    listed = {one.rank: one.groups for one in ranks}
    if ranks and len(named) == len(ranks):
        return _by_positions(named, world, listed, "file names", operations, stated)
    size = stated.all_of(world)
    size = size if size and operations.allow(size.tp) else None
    return (
        _by_descriptions(listed, world)
        or (_by_size(ranks, size) if size else None)
        or _by_operations(ranks, world, operations, size)
    )


def _of_replicas(ranks: Sequence[RankFacts], operations: Operations) -> Layout:
    """The layout of replicas that share nothing: each has the layout of a run of its own."""
    replicas = ranks[0].replicas
    size = max(one.world_size or 0 for one in ranks) // replicas
    own: dict[int, list[RankFacts]] = {}
    for one in ranks:
        own.setdefault(one.replica or 0, []).append(_in_replica(one, size))
    layouts = {n: inferred_layout(of, {}, operations, Sizes()) for n, of in own.items()}
    tp, pp, dp = (_same(getattr(of, k) for of in layouts.values()) for k in ("tp", "pp", "dp"))
    return replace(
        next(iter(layouts.values())),
        places={
            rank + number * size: replace(place, dp=number * (dp or 1) + place.dp)
            for number, of in layouts.items()
            for rank, place in of.places.items()
        },
        tp=tp,
        pp=pp,
        dp=dp and dp * replicas,
        stages_known=all(of.stages_known for of in layouts.values()),
        apart=True,
    )


def _in_replica(one: RankFacts, size: int) -> RankFacts:
    """The evidence for the place of a rank in its replica, which has ranks from 0."""
    shift = (one.replica or 0) * size
    return replace(
        one,
        rank=one.rank - shift,
        world_size=size,
        named=one.named and replace(one.named, dp=0),
        groups=[replace(group, ranks=[r - shift for r in group.ranks]) for group in one.groups],
        replica=None,
    )


def _by_operations(
    ranks: Sequence[RankFacts], world: int, operations: Operations, size: RankPosition | None
) -> Layout:
    """The layout by stages and process groups; operations decide which kind of parallelism it is.

    Args:
        size: the sizes that run.json states, if they are possible.
    """
    layout = _by_stages_and_groups(ranks, world)
    is_other = size is not None and (layout.tp, layout.pp, layout.dp) != (size.tp, size.pp, size.dp)
    if not is_other and (layout.tp == layout.dp == 1 or operations.reduce_layers):
        return layout
    # All process groups of more than one rank have the same ranks, and there is one.
    is_one_group = all(
        len({tuple(group.ranks) for group in one.groups if len(group.ranks) > 1}) == 1
        for one in ranks
    )
    if not is_other and operations.reduce_gradients and is_one_group:
        source = f"{layout.source}, DistributedDataParallel"
        return replace(layout, shared="work", stages_known=True, source=source)
    return replace(layout, shared=None, source=f"{layout.source}; kind of parallelism unknown")


def _by_descriptions(listed: Mapping[int, Sequence[ProcessGroup]], world: int) -> Layout | None:
    """The layout by the descriptions of process groups.

    None if, for any rank, the sizes of the described groups do not multiply to the world size.
    """
    places, sizes = {}, set()
    for rank, groups in listed.items():
        own = {kind: _described(rank, groups, kind) for kind in _DESCRIPTIONS}
        size = RankPosition(**{kind: len(ranks) for kind, ranks in own.items()})
        if world <= 1 or size.tp * size.pp * size.dp != world:
            return None
        places[rank] = RankPosition(**{kind: ranks.index(rank) for kind, ranks in own.items()})
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


def _by_positions(
    places: Mapping[int, RankPosition],
    world: int,
    listed: Mapping[int, Sequence[ProcessGroup]],
    source: str,
    operations: Operations,
    stated: Sizes,
) -> Layout:
    """A layout with these places, and with sizes for which the places give the ranks.

    A size is unknown if several fit the ranks, the process groups that the files list, the
    operations, and what run.json states.

    Args:
        listed: the process groups that the file of each rank lists.
        stated: the sizes that run.json states.
    """
    fitting = _fit_ranks(places, world)
    whole = stated.all_of(world)
    if whole and operations.allow(whole.tp) and whole not in fitting and _hold(whole, places):
        fitting = [whole]  # its ranks have another order
    fitting = [size for size in fitting if operations.allow(size.tp)] or fitting
    fitting = [
        size
        for size in fitting
        if all(
            _has_groups_of(size, rank, place, listed.get(rank, ()), world)
            for rank, place in places.items()
        )
    ] or fitting
    fitting = [size for size in fitting if stated.allow(size)] or fitting
    tp, pp, dp = (_same(getattr(size, k) for size in fitting) for k in ("tp", "pp", "dp"))
    return Layout(places, tp, pp, dp, source)


def _fit_ranks(places: Mapping[int, RankPosition], world: int) -> list[RankPosition]:
    """The sizes for which rank = (dp x pp_size + pp) x tp_size + tp, as vLLM counts ranks.

    If there are none, the least sizes, provided that each of their places has its rank.
    """
    divisors = _divisors(world)
    fitting = [
        size
        for tp in divisors
        for pp in divisors
        if world % (tp * pp) == 0
        for size in [RankPosition(tp, pp, world // (tp * pp))]
        if _hold(size, places)
        if all(r == (p.dp * size.pp + p.pp) * size.tp + p.tp for r, p in places.items())
    ]
    least = _least(places)
    is_complete = len(set(places.values())) == least.tp * least.pp * least.dp
    return fitting or ([least] if is_complete else [])


def _hold(size: RankPosition, places: Mapping[int, RankPosition]) -> bool:
    """Whether all places are within these sizes."""
    least = _least(places)
    return size.tp >= least.tp and size.pp >= least.pp and size.dp >= least.dp


def _least(places: Mapping[int, RankPosition]) -> RankPosition:
    """The least sizes that hold all places."""
    return RankPosition(
        *(1 + max(getattr(p, k) for p in places.values()) for k in ("tp", "pp", "dp"))
    )


def _has_groups_of(
    size: RankPosition, rank: int, place: RankPosition, listed: Iterable[ProcessGroup], world: int
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


def _same(sizes: Iterable[int]) -> int | None:
    """The size, if it is the same in all; else None."""
    found = set(sizes)
    return found.pop() if len(found) == 1 else None


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _by_size(ranks: Sequence[RankFacts], size: RankPosition) -> Layout | None:
    """The layout by sizes that run.json states, if there is only one kind of parallelism.

    Then the positions are the numbers of the ranks. None if a rank has another stage.
    """
    if sorted((size.tp, size.pp, size.dp))[:2] != [1, 1]:
        return None
    places = {
        one.rank: RankPosition(
            tp=one.rank if size.tp > 1 else 0,
            pp=one.rank if size.pp > 1 else 0,
            dp=one.rank if size.dp > 1 else 0,
        )
        for one in ranks
    }
    is_other = any(one.stage not in (None, places[one.rank].pp) for one in ranks)
    is_beyond = any(one.rank >= max(size.tp, size.pp, size.dp) for one in ranks)
    if is_other or is_beyond or not places:
        return None
    return Layout(places, size.tp, size.pp, size.dp, "run.json")


def _by_stages_and_groups(ranks: Sequence[RankFacts], world: int) -> Layout:
    """The layout by stages and, if every file lists some, by process groups without a purpose.

    They show which ranks communicate, but not for what purpose.
    """
    staged = {one.rank: one.stage or 0 for one in ranks}
    if all(one.stage is None for one in ranks):
        stages: int | None = 1
    else:
        stages = max(one.stages or 0 for one in ranks) or None
    groups = {one.rank: _tensor_group(one.rank, one.groups, staged) for one in ranks}
    if ranks and all(groups.values()):
        width: int | None = max(map(len, groups.values()))
        replicas = max(1, world // (width * stages)) if stages and width else None
        source = "process groups of distributedInfo"
    else:  # nothing is known but stages: the ranks of one stage share its layers
        width, replicas = max(1, world // stages) if stages else None, 1
        groups = {
            rank: [r for r in sorted(staged) if staged[r] == own] for rank, own in staged.items()
        }
        source = "ranks of the run" if stages == 1 else "pattern of operations"
    firsts = sorted({(staged[rank], groups[rank][0]) for rank in staged})
    places = {
        rank: RankPosition(
            tp=groups[rank].index(rank),
            pp=stage,
            dp=[first for at, first in firsts if at == stage].index(groups[rank][0]),
        )
        for rank, stage in staged.items()
    }
    is_known = all(one.stage is not None for one in ranks) or world <= 1
    return Layout(places, width, stages, replicas, source, stages_known=is_known)


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
