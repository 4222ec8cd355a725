"""How many kernels each launch of a HIP graph has, and which launches lost some.

Some versions of ROCm lose a part of the kernels of HIP graphs while they record: of the launches of
one graph, some have fewer kernels than others. A launch that lost kernels looks faster than it was.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from traceql.readers.remarks import Remark

Int64s = npt.NDArray[np.int64]
_RECORD_GRAPHS = (
    ". Unless they were filtered out: ROCm 7.2 loses kernels of graphs while it records "
    "(ROCm/rocm-systems, pull request 4361); record with another version, or without graphs "
    "(vLLM: --enforce-eager)"
)


def graph_remarks(
    launches: Int64s, graphs: Sequence[str | None], activities: Int64s
) -> Iterator[Remark]:
    """Statements about the launches of graphs; none if there are no launches.

    Args:
        launches: the correlation of each launch.
        graphs: the graph that each launches; None if the file does not tell.
        activities: the correlation of each kernel and copy.
    """
    if not len(launches):
        return
    of_launch = _counted(launches, activities)
    yield Remark(
        "activities of graph launches",
        int(of_launch.sum()),
        len(launches),
        None,
        "kernels and copies that launches of HIP graphs made; launches. A launch has "
        f"{of_launch.min():,} to {of_launch.max():,}",
    )
    empty = int((of_launch == 0).sum())
    yield Remark(
        "graph launches without kernels",
        empty,
        len(launches),
        empty == 0,
        "launches of HIP graphs of which no kernel is in the file, or none with the launch's "
        f"correlation; all launches{advice(empty)}",
    )
    yield _uneven(graphs, of_launch)


def advice(lost: int) -> str:
    """What to do where something was lost."""
    return _RECORD_GRAPHS if lost else ""


def _uneven(graphs: Sequence[str | None], of_launch: Int64s) -> Remark:
    """Launches with fewer kernels than another launch of the same graph."""
    check_name = "graph launches that lost kernels"
    known = np.array([graph is not None for graph in graphs], np.bool_)
    if not known.any():
        return Remark(
            check_name,
            0,
            len(graphs),
            None,
            "unknown, because the file does not say which graph a call launches; record with "
            "rocprofv3 --hip-trace --output-format rocpd or json",
        )
    _, graph = np.unique([graph or "" for graph in graphs], return_inverse=True)
    most = np.zeros(graph.max() + 1, np.int64)
    np.maximum.at(most, graph, of_launch)
    lost = int((known & (of_launch < most[graph]) & (of_launch > 0)).sum())
    return Remark(
        check_name,
        lost,
        int(known.sum()),
        lost == 0,
        "launches with fewer kernels than another launch of the same HIP graph, or of another that "
        f"took its address; launches of known graphs{advice(lost)}",
    )


def _counted(launches: Int64s, activities: Int64s) -> Int64s:
    """The number of activities with the correlation of each launch."""
    known, counted = np.unique(activities, return_counts=True)
    if not len(known):
        return np.zeros(len(launches), np.int64)
    place = np.minimum(np.searchsorted(known, launches), len(known) - 1)
    found: Int64s = np.where((known[place] == launches) & (launches != 0), counted[place], 0)
    return found
