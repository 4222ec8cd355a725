"""What connects PyTorch's events, calls of CANN and tasks: their connections, and arrows of them.

A call of CANN and what it started have the same connection. An event of PyTorch has an id in table
CONNECTION_IDS, which lists the connections of each: those of the calls that an operator made, and
one that putting a task into torch_npu's queue and taking it out share.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.formats.ascend_db.profile import Profile, whole
from traceql.readers.tables import FLOW

Int64s = npt.NDArray[np.int64]
_TABLE = "CONNECTION_IDS"
_PAIR = pa.schema([("id", pa.int64()), ("connection", pa.int64())])


class Connections:
    """Pairs of an event of PyTorch and a connection."""

    def __init__(self, profile: Profile) -> None:
        pairs = _PAIR.empty_table()
        if profile.has(_TABLE, "id", "connectionId"):
            pairs = profile.table(
                f"SELECT id, connectionId FROM {_TABLE} "
                f"WHERE {whole('id')} IS NOT NULL AND {whole('connectionId')} IS NOT NULL",
                _PAIR,
            )
        ids, connections = (pairs[name].to_numpy().astype(np.int64) for name in _PAIR.names)
        order = np.lexsort((ids, connections))
        self._ids, self._connections = ids[order], connections[order]

    def of_ids(self, ids: Int64s) -> tuple[Int64s, Int64s]:
        """The connections of these events: the position of the event, and the connection."""
        order = np.argsort(self._ids, kind="stable")
        known = self._ids[order]
        first, last = (np.searchsorted(known, ids, side) for side in ("left", "right"))
        counts = last - first
        at = np.repeat(np.arange(len(ids)), counts)
        within = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        return at, self._connections[order][np.repeat(first, counts) + within]


def joined(left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
    """For each value of `right` that `left` has, its position there (the first) and here."""
    known, first = np.unique(left, return_index=True)
    if not len(known):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    place = np.minimum(np.searchsorted(known, right), len(known) - 1)
    found = np.flatnonzero(known[place] == right)
    return first[place[found]], found


def flow_table(pairs: list[tuple[Int64s, Int64s]]) -> pa.Table:
    """Arrows as the table `FLOW`: each from the first event to the second."""
    tables = [pa.table([pa.array(a), pa.array(b)], schema=FLOW) for a, b in pairs]
    return pa.concat_tables([FLOW.empty_table(), *tables])
