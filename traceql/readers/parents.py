"""Parents and depths of slices that come window after window, in the order of time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.nester import Nester
from traceql.readers.track_nesting import NONE, SLICE

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Parents:
    """The parent of each slice, NULL at the top, and how many slices enclose it."""

    parent: pa.Array
    depth: pa.Array


class WindowedNesting:
    """Nests slices without flows; what is still open goes on into the next window."""

    def __init__(self) -> None:
        self._nester = Nester()

    def of_window(self, ts: Int64s, dur: Int64s, track: Int64s, index: Int64s) -> Parents:
        """The parents of the slices that begin in a window, after those of earlier windows.

        Args:
            ts: start of each slice, ns.
            dur: its duration, ns.
            track: the number of its track.
            index: its number among all slices, by which parents are named.
        """
        lasts = np.maximum(dur, 0)
        order = np.lexsort((index, -lasts, ts, track))
        kind = np.full(len(order), SLICE)
        found = self._nester.add(track[order], ts[order], lasts[order], index[order], kind)
        parent, depth = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        parent[order], depth[order] = found.parent, found.depth
        return Parents(pa.array(parent, mask=parent == NONE), pa.array(depth))
