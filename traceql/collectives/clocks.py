"""Each rank's clock against a reference rank's, through the operations that connect them."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from traceql.collectives.ends import Difference, difference, tolerance_ns
from traceql.collectives.pairing import Series, alike

Ranks = Mapping[int, Series]
_Neighbours = Mapping[int, Mapping[int, Difference]]


def clocks(roots: Iterable[int], groups: Iterable[Ranks]) -> list[dict[str, object]]:
    """One row of table `clock` per rank.

    Args:
        roots: all ranks, the first of which is the reference of those that operations lead to.
        groups: the operations of each rank, for each group whose operations have no direction.
    """
    neighbours = _neighbours(groups)
    against_root: dict[int, Difference | None] = {}
    rows: list[dict[str, object]] = []
    for root in roots:
        if root in against_root:
            continue
        against_root[root] = None
        rows.append(_row(root, root, None, None))
        for rank, via, found in _tree(root, neighbours):
            before = against_root[via]
            own = None if found.is_shared else found
            against_root[rank] = own.after(before) if own and before else own or before
            rows.append(_row(rank, root, against_root[rank], found))
    return rows


def _row(
    rank: int, root: int, applied: Difference | None, found: Difference | None
) -> dict[str, object]:
    source = "ends of operations" if applied else "shared" if found else "reference"
    residual_ns = applied.residual_ns if applied else found.uncertainty_ns if found else 0
    return {
        "rank": rank,
        "compared_with": root,
        "offset_ns": applied.offset_ns if applied else 0,
        "drift": applied.drift if applied else 0.0,
        "at_ns": applied.at_ns if applied else 0,
        "residual_ns": residual_ns,
        "tolerance_ns": tolerance_ns(residual_ns),
        "measured_ns": found and found.offset_ns,
        "operations": found.operations if found else 0,
        "source": source,
    }


def _tree(root: int, neighbours: _Neighbours) -> Iterable[tuple[int, int, Difference]]:
    """Every rank that operations lead to: rank, the one before it, and the difference to that."""
    waiting = deque([root])
    reached = {root}
    while waiting:
        here = waiting.popleft()
        for rank, found in neighbours.get(here, {}).items():
            if rank not in reached:
                reached.add(rank)
                waiting.append(rank)
                yield rank, here, found


def _neighbours(groups: Iterable[Ranks]) -> _Neighbours:
    """The difference of two ranks' clocks, by the first group that tells."""
    found: dict[int, dict[int, Difference]] = defaultdict(dict)
    for ranks in groups:
        reference = max(ranks.values(), key=len)
        for series in ranks.values():
            if series is reference or series.rank in found[reference.rank]:
                continue
            measured = _between(reference, series)
            if measured is not None:
                found[reference.rank][series.rank] = measured
                found[series.rank][reference.rank] = measured.inverse()
    return found


def _between(reference: Series, series: Series) -> Difference | None:
    """By operations that all ranks end together; a broadcast may be over long before it arrives."""
    pairs = alike(reference, series)
    if pairs is None:
        return None
    sharp = reference.synchronising[pairs[0]]
    mine, theirs = pairs[0][sharp], pairs[1][sharp]
    return difference(reference.end_ts[mine], series.end_ts[theirs], reference.kind[mine])
