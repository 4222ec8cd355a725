"""Which intervals of a track enclose each other, of all that nest, at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
DEEPEST = 500  # the trace processor drops events that are nested 512 deep


@dataclass(frozen=True)
class Enclosing:
    """What was found of each interval.

    A cluster is a part of the time in which some interval is always open. Parents and depths are
    right unless the cluster is tangled: there, intervals overlap without nesting, or too many nest.

    Attributes:
        parent: the place of the innermost interval that encloses it; -1 at the top.
        depth: how many intervals enclose it.
        is_tangled: whether its cluster is.
    """

    parent: Int64s
    depth: Int64s
    is_tangled: Bools


def enclosing(begin: Int64s, finish: Int64s) -> Enclosing:
    """The parents of intervals that are sorted by begin, those that begin together by -finish.

    The depth of an interval is the number of earlier ones that are open at its begin; its parent is
    the last earlier one that is one level up. All nest if and only if none ends after its parent.

    Args:
        begin: the begins.
        finish: the ends, each of which is after its begin.
    """
    count = len(begin)
    closed = np.searchsorted(np.sort(finish), begin, side="right")
    depth = np.minimum(np.arange(count) - closed, DEEPEST)
    by_depth = np.argsort(depth.astype(np.int16), kind="stable")
    place = depth[by_depth] * count + by_depth
    above = by_depth[np.searchsorted(place, place - count) - 1]
    parent = np.empty(count, np.int64)
    parent[by_depth] = np.where(depth[by_depth] > 0, above, -1)
    is_wrong = (depth == DEEPEST) | ((parent >= 0) & (finish[parent] < finish))
    if not is_wrong.any():
        return Enclosing(parent, depth, is_wrong)
    cluster = np.cumsum(begin[1:] >= np.maximum.accumulate(finish)[:-1])
    cluster = np.insert(cluster, 0, 0)
    return Enclosing(parent, depth, np.isin(cluster, cluster[is_wrong]))
