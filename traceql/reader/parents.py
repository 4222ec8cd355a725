"""Parents and depths of slices that come window after window, in the order of time."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.reader.coded import runs
from traceql.reader.track_nesting import NONE, SLICE, Nested, TrackNesting

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Parents:
    """The parent of each slice, NULL at the top, and how many slices enclose it."""

    parent: pa.Array
    depth: pa.Array


class WindowedNesting:
    """Nests slices without flows; what is still open goes on into the next window."""

    def __init__(self) -> None:
        self._tracks: defaultdict[int, TrackNesting] = defaultdict(TrackNesting)

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
        ts, lasts, index, tracks = ts[order], lasts[order], index[order], track[order]
        found = Nested()
        for own in runs(tracks):
            starts, durations, numbers = (one[own].tolist() for one in (ts, lasts, index))
            nesting = self._tracks[int(tracks[own.start])]
            nesting.add(starts, durations, numbers, [SLICE] * len(starts), found)
        parent, depth = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        parent[order], depth[order] = found.parent, found.depth
        return Parents(pa.array(parent, mask=parent == NONE), pa.array(depth))
