"""The nesting of many slices, part after part, so that the trace processor needs little memory."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.reader.flows import Flows
from traceql.reader.nesting import Nesting, nesting
from traceql.reader.timeline import Timeline
from traceql.reader.tracks import Track

Int64s = npt.NDArray[np.int64]
ROWS = 250_000  # of a part, about
_NOTHING = np.empty(0, np.int64)
NO_FLOWS = Flows(Timeline(_NOTHING, _NOTHING, _NOTHING, _NOTHING), [], _NOTHING, _NOTHING)


def windowed_nesting(
    slices: Timeline, tracks: Sequence[Track], *, trace_processor: Path | None
) -> Nesting:
    """The nesting of slices that no flows join.

    Args:
        slices: in the order of time; of those that begin together, the longest is first.

    Raises:
        LossyLoad: an event is missing from the answer, or has another time there.
    """
    end = slices.ts + slices.dur
    still_open = _NOTHING
    found: list[Nesting] = []
    for first, after in pairwise(_borders(slices.ts)):
        rows = np.concatenate((still_open, np.arange(first, after)))
        part = Timeline(slices.ts[rows], slices.dur[rows], slices.track[rows], slices.lane[rows])
        answer = nesting(part, NO_FLOWS, tracks, trace_processor=trace_processor)
        found.append(_of_whole(answer, rows, len(still_open)))
        if after < len(slices):
            still_open = rows[end[rows] > slices.ts[after]]
    return Nesting(
        parent=pa.chunked_array([one.parent for one in found]).combine_chunks(),
        depth=pa.chunked_array([one.depth for one in found]).combine_chunks(),
        slice_out=found[0].slice_out,
        slice_in=found[0].slice_in,
        engine=found[0].engine,
    )


def _borders(ts: Int64s) -> list[int]:
    """The first row of each part, and the number of rows; what begins together stays together."""
    wanted = ts[np.arange(ROWS, len(ts), ROWS)]
    inner = np.searchsorted(ts, wanted, side="left").tolist()
    return [0, *sorted({row for row in inner if row}), len(ts)]


def _of_whole(answer: Nesting, rows: Int64s, before: int) -> Nesting:
    """The answer about a part as one about all slices, without those of earlier parts."""
    return Nesting(
        parent=pa.array(rows).take(_flat(answer.parent)[before:]),
        depth=_flat(answer.depth)[before:],
        slice_out=answer.slice_out,
        slice_in=answer.slice_in,
        engine=answer.engine,
    )


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
