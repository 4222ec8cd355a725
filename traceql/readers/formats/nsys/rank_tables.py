"""The tables of one rank, window after window, so that the memory does not grow with the file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.formats.nsys.ahead import Ahead
from traceql.readers.formats.nsys.arrows import Arrows
from traceql.readers.formats.nsys.counts import counts
from traceql.readers.formats.nsys.rank_events import ON_GPU, RankEvents
from traceql.readers.formats.nsys.recording import RankRecording
from traceql.readers.formats.nsys.remarks import GraphLaunches, remarks
from traceql.readers.formats.nsys.track_numbers import TrackNumbers
from traceql.readers.formats.nsys.window_rows import window_rows
from traceql.readers.formats.nsys.windows import Window, windows
from traceql.readers.parents import WindowedNesting
from traceql.readers.remarks import remark_table
from traceql.readers.tables import SCHEMAS
from traceql.readers.tracks import track_table

Int64s = npt.NDArray[np.int64]
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class WindowTables:
    """The tables of a window; what is of the whole rank is in those of the last one."""

    tables: dict[str, pa.Table]
    is_last: bool


def rank_tables(
    rank: RankRecording, *, is_first: bool, ahead: Ahead | None = None
) -> Iterator[WindowTables]:
    """The tables of one rank.

    Args:
        is_first: whether it is the first rank, which also has what exports say of none.
        ahead: reads windows in other processes.
    """
    numbers, arrows, nesting = TrackNumbers(rank.export), Arrows(), WindowedNesting()
    first = 0
    launches = worked = _NOTHING
    parts = windows(rank.rows)
    each = ahead.rows(rank, parts) if ahead and len(parts) > 1 else _rows(rank, parts)
    for number, (window, rows) in enumerate(zip(parts, each, strict=True), 1):
        found = RankEvents(rank, rows, numbers, window, first=first)
        parents = nesting.of_window(found.ts, found.dur, found.track, found.index)
        tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        tables |= found.tables(parents)
        tables["flow"] = arrows.table(found.calls(), found.correlations(*ON_GPU))
        launches = np.unique(np.concatenate((launches, found.graph_launches())))
        replayed = np.intersect1d(launches, found.correlations(*ON_GPU)[1])
        worked = np.union1d(worked, replayed)
        first += len(found)
        if number == len(parts):
            tables["track"] = track_table(found.tracks)
            tables["count"] = counts(rank)
            launched = GraphLaunches(len(launches), len(np.setdiff1d(launches, worked)))
            tables["load_check"] = remark_table(remarks(rank, launched, is_first=is_first))
        del found, parents, rows
        yield WindowTables(tables, number == len(parts))


def _rows(rank: RankRecording, windows: Sequence[Window]) -> Iterator[pa.Table]:
    """The rows of each window, read when they are used."""
    for window in windows:
        yield window_rows(rank.export, rank.nvtx, rank.events, window)
