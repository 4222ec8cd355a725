"""Compares the clock of each rank with the reference clock, by operations that connect ranks."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from traceql.analysis.collectives.ends import Difference, difference, tolerance_ns
from traceql.analysis.collectives.pairing import Series, alike

Ranks = Mapping[int, Series]
_Neighbours = Mapping[int, Mapping[int, Difference]]


def clocks(roots: Iterable[int], groups: Iterable[Ranks]) -> list[dict[str, object]]:
    """The rows of table `clock`, one per rank.

    Args:
        roots: all ranks, the lowest first. A rank that no operations connect with a lower one is
            the reference rank of all ranks that operations connect with it.
        groups: for each communicator in which data does not go one way, the operations of each
            of its ranks.
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
    """The row of one rank.

    Args:
        root: its reference rank.
        applied: the correction to the reference clock; None if the clock is shared.
        found: the measured difference to the rank before it; None for the reference rank.
    """
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
    """All ranks that operations connect with `root`, the nearest first.

    Each is (rank, the rank that it was reached from, the difference of its clock to that one's).
    """
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
    """The differences between the clocks of two ranks, for pairs that a communicator connects.

    In each communicator, all ranks are compared with the one that has most operations. The first
    communicator that tells a pair's difference counts.
    """
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
    """The difference of two ranks' clocks, by operations that all ranks end together.

    A broadcast is no such operation: the sender may end it long before the others. None if the
    operations of the two ranks cannot be matched.
    """
    pairs = alike(reference, series)
    if pairs is None:
        return None
    sharp = reference.synchronising[pairs[0]]
    mine, theirs = pairs[0][sharp], pairs[1][sharp]
    return difference(reference.end_ts[mine], series.end_ts[theirs], reference.kind[mine])
