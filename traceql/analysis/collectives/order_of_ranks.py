"""Places by the order of ranks, within the pipeline stages and process groups that are known."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from traceql.analysis.collectives.layout import Layout, RankFacts, RankPlace
from traceql.readers.dialects.facts import ProcessGroup


def along_one(ranks: Sequence[RankFacts], size: RankPlace) -> dict[int, RankPlace] | None:
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


def by_stages_and_groups(ranks: Sequence[RankFacts], world: int) -> Layout:
    """The layout by stages and, if every file lists some, by process groups without a purpose.

    They tell which ranks communicate, but not for what purpose.
    """
    staged = {one.rank: one.stage or 0 for one in ranks}
    stages = _stages(ranks)
    groups = {one.rank: _tensor_group(one.rank, one.groups, staged) for one in ranks}
    if ranks and all(groups.values()):
        layout = _by_groups(staged, stages, groups, world, "process groups of distributedInfo")
    else:
        layout = _by_stages(staged, stages, world)
    is_known = all(one.stage is not None for one in ranks) or world <= 1
    return replace(layout, stages_known=is_known)


def _stages(ranks: Sequence[RankFacts]) -> int | None:
    """The number of stages; 1 if no rank has a stage, None if nobody knows how many there are."""
    if all(one.stage is None for one in ranks):
        return 1
    return max((one.stages or 0 for one in ranks), default=1) or None


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
