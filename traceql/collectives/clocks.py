"""Each rank's clock against the first rank's, over the operations that lead from one to another."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from traceql.collectives.ends import Difference, difference
from traceql.collectives.pairing import Series, alike
from traceql.loading.arrow import write_table

_CLOCK = pa.schema(
    [
        ("rank", pa.int64()),
        ("compared_with", pa.int64()),
        ("offset_ns", pa.int64()),
        ("drift", pa.float64()),
        ("at_ns", pa.int64()),
        ("residual_ns", pa.int64()),
        ("measured_ns", pa.int64()),
        ("operations", pa.int64()),
        ("source", pa.string()),
    ]
)

Ranks = Mapping[int, Series]
_Neighbours = Mapping[int, Mapping[int, Difference]]


def write_clocks(
    con: duckdb.DuckDBPyConnection, groups: Iterable[tuple[bool, Ranks]]
) -> dict[int, Difference]:
    """Clocks that are not those of the ranks they are compared with, by rank; writes table `clock`.

    Args:
        groups: whether a group's operations have a direction, and its ranks' operations.
    """
    neighbours = _neighbours(ranks for directed, ranks in groups if not directed)
    against_root: dict[int, Difference | None] = {}
    rows: list[dict[str, object]] = []
    for (root,) in con.execute("SELECT rank FROM trace ORDER BY rank").fetchall():
        if root in against_root:
            continue
        against_root[root] = None
        rows.append(_row(root, root, None, None))
        for rank, via, found in _tree(root, neighbours):
            before = against_root[via]
            own = None if found.is_shared else found
            against_root[rank] = own.after(before) if own and before else own or before
            rows.append(_row(rank, root, against_root[rank], found))
    write_table(con, "clock", pa.Table.from_pylist(rows, _CLOCK))
    return {rank: found for rank, found in against_root.items() if found is not None}


def _row(
    rank: int, root: int, applied: Difference | None, found: Difference | None
) -> dict[str, object]:
    source = "ends of operations" if applied else "shared" if found else "reference"
    return {
        "rank": rank,
        "compared_with": root,
        "offset_ns": applied.offset_ns if applied else 0,
        "drift": applied.drift if applied else 0.0,
        "at_ns": applied.at_ns if applied else 0,
        "residual_ns": applied.residual_ns if applied else found.uncertainty_ns if found else 0,
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
