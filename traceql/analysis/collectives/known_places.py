"""Sizes of the kinds of parallelism, where the place of each rank is known."""

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt

from traceql.analysis.collectives.layout import Layout, Operations, RankPlace, Sizes
from traceql.readers.dialects.facts import ProcessGroup


def sized(
    places: Mapping[int, RankPlace],
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
    tp, pp, dp = (_only({getattr(size, k) for size in fitting}) for k in ("tp", "pp", "dp"))
    return Layout(places, tp, pp, dp, source)


def _fit_ranks(places: Mapping[int, RankPlace], world: int) -> list[RankPlace]:
    """The sizes for which rank = (dp x pp_size + pp) x tp_size + tp, as vLLM counts ranks.

    If there are none, the least sizes, provided that each of their places has its rank.
    """
    divisors = _divisors(world)
    fitting = [
        size
        for tp in divisors
        for pp in divisors
        if world % (tp * pp) == 0
        for size in [RankPlace(tp, pp, world // (tp * pp))]
        if _hold(size, places)
        if all(r == (p.dp * size.pp + p.pp) * size.tp + p.tp for r, p in places.items())
    ]
    least = _least(places)
    is_complete = len(set(places.values())) == least.tp * least.pp * least.dp
    return fitting or ([least] if is_complete else [])


def _hold(size: RankPlace, places: Mapping[int, RankPlace]) -> bool:
    """Whether all places are within these sizes."""
    least = _least(places)
    return size.tp >= least.tp and size.pp >= least.pp and size.dp >= least.dp


def _least(places: Mapping[int, RankPlace]) -> RankPlace:
    """The least sizes that hold all places."""
    return RankPlace(*(1 + max(getattr(p, k) for p in places.values()) for k in ("tp", "pp", "dp")))


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


def _only(sizes: set[int]) -> int | None:
    return sizes.pop() if len(sizes) == 1 else None


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
