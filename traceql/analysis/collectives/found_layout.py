"""Finds the place of each rank by the best evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from traceql.analysis.collectives.described_groups import by_descriptions
from traceql.analysis.collectives.known_places import sized
from traceql.analysis.collectives.layout import Layout, Operations, RankFacts, RankPlace, Sizes
from traceql.analysis.collectives.order_of_ranks import along_one, by_stages_and_groups
from traceql.readers.dialects.facts import ProcessGroup


def found_layout(
    ranks: Sequence[RankFacts],
    of_run: Mapping[int, RankPlace],
    operations: Operations,
    stated: Sizes,
) -> Layout:
    """The layout by the best evidence: run.json, file names, process groups or operations.

    Args:
        ranks: the evidence for each rank, in the order of ranks.
        of_run: the places that run.json states.
        operations: what the operations of the run tell.
        stated: the sizes that run.json states; operations and places refute them.
    """
    world = max((one.world_size or 0 for one in ranks), default=0)
    size = stated.all_of(world)
    size = size if size and operations.allow(size.tp) else None
    return (
        _by_run(ranks, of_run, world, operations, stated)
        or _by_file_names(ranks, world, operations, stated)
        or by_descriptions({one.rank: one.groups for one in ranks}, world)
        or _by_size(ranks, size)
        or _by_operations(ranks, world, operations, size)
    )


def _by_run(
    ranks: Sequence[RankFacts],
    of_run: Mapping[int, RankPlace],
    world: int,
    operations: Operations,
    stated: Sizes,
) -> Layout | None:
    """The layout by the places in run.json, if it has that of each rank."""
    if not ranks or any(one.rank not in of_run for one in ranks):
        return None
    layout = sized(of_run, world, {}, "run.json", operations, stated)  # of all ranks, loaded or not
    return replace(layout, places={one.rank: of_run[one.rank] for one in ranks})


def _by_file_names(
    ranks: Sequence[RankFacts], world: int, operations: Operations, stated: Sizes
) -> Layout | None:
    """The layout by the places in the names of files, if each file has one."""
    named = {one.rank: one.named for one in ranks if one.named is not None}
    if not ranks or len(named) != len(ranks):
        return None
    listed = {one.rank: one.groups for one in ranks}
    return sized(named, world, listed, "file names", operations, stated)


def _by_size(ranks: Sequence[RankFacts], size: RankPlace | None) -> Layout | None:
    """The layout by sizes that run.json states, if there is only one kind of parallelism."""
    placed = along_one(ranks, size) if size else None
    return Layout(placed, size.tp, size.pp, size.dp, "run.json") if size and placed else None


def _by_operations(
    ranks: Sequence[RankFacts], world: int, operations: Operations, size: RankPlace | None
) -> Layout:
    """The layout by stages and process groups; operations tell which kind of parallelism it is.

    Args:
        size: the sizes that run.json states, if they are possible.
    """
    layout = by_stages_and_groups(ranks, world)
    is_other = size is not None and (layout.tp, layout.pp, layout.dp) != (size.tp, size.pp, size.dp)
    if not is_other and (layout.tp == layout.dp == 1 or operations.reduce_layers):
        return layout
    is_one_group = all(_is_one_group(one.groups) for one in ranks)
    if not is_other and operations.reduce_gradients and is_one_group:
        source = f"{layout.source}, DistributedDataParallel"
        return replace(layout, shared="work", stages_known=True, source=source)
    return replace(layout, shared=None, source=f"{layout.source}; kind of parallelism unknown")


def _is_one_group(listed: Iterable[ProcessGroup]) -> bool:
    """Whether all process groups of more than one rank have the same ranks, and there is one."""
    return len({tuple(group.ranks) for group in listed if len(group.ranks) > 1}) == 1
