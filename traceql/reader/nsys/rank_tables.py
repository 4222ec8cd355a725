"""The tables of one rank, window after window, so that the memory does not grow with the file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.reader.nesting import Nesting, nesting
from traceql.reader.nsys.arrows import Arrows
from traceql.reader.nsys.counts import counts
from traceql.reader.nsys.rank_events import ON_GPU, RankEvents
from traceql.reader.nsys.recording import RankRecording
from traceql.reader.nsys.remarks import GraphLaunches, remarks
from traceql.reader.nsys.track_numbers import TrackNumbers
from traceql.reader.nsys.windows import windows
from traceql.reader.remarks import remark_table
from traceql.reader.tables import SCHEMAS
from traceql.reader.timeline import complete_timeline
from traceql.reader.tracks import Track, track_table
from traceql.reader.windowed_nesting import NO_FLOWS

Int64s = npt.NDArray[np.int64]
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Spans:
    """Slices: their index in the rank, start, duration and track."""

    index: Int64s
    ts: Int64s
    dur: Int64s
    track: Int64s

    def then(self, others: "_Spans") -> "_Spans":
        columns = ("index", "ts", "dur", "track")
        return _Spans(
            *(np.concatenate((getattr(self, name), getattr(others, name))) for name in columns)
        )

    def open_at(self, ts: int) -> "_Spans":
        """Those that end later, so that slices of the next window may be inside them."""
        is_open = self.ts + self.dur > ts
        return _Spans(*(c[is_open] for c in (self.index, self.ts, self.dur, self.track)))


@dataclass(frozen=True)
class WindowTables:
    """The tables of a window; what is of the whole rank is in those of the last one."""

    tables: dict[str, pa.Table]
    is_last: bool


def rank_tables(
    rank: RankRecording,
    *,
    is_first: bool,
    trace_processor: Path | None,
) -> Iterator[WindowTables]:
    """The tables of one rank.

    Args:
        is_first: whether it is the first rank, which also has what exports say of none.
    """
    numbers, arrows = TrackNumbers(rank.export), Arrows()
    carried, first = _Spans(_NOTHING, _NOTHING, _NOTHING, _NOTHING), 0
    launches = worked = _NOTHING
    parts = windows(rank.rows)
    for number, window in enumerate(parts, 1):
        found = RankEvents(rank, numbers, window, first=first)
        spans = carried.then(_Spans(found.index, found.ts, found.dur, found.track))
        nested = _nested(spans, len(carried.ts), found.tracks, trace_processor)
        tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        tables |= found.tables(nested)
        tables["flow"] = arrows.table(found.calls(), found.correlations(*ON_GPU))
        launches = np.unique(np.concatenate((launches, found.graph_launches())))
        replayed = np.intersect1d(launches, found.correlations(*ON_GPU)[1])
        worked = np.union1d(worked, replayed)
        first += len(found)
        if window.end is not None:
            carried = spans.open_at(window.end)
        if number == len(parts):
            tables["track"] = track_table(found.tracks)
            tables["count"] = counts(rank)
            launched = GraphLaunches(len(launches), len(np.setdiff1d(launches, worked)))
            tables["remark"] = remark_table(remarks(rank, launched, is_first=is_first))
        del found, spans, nested
        yield WindowTables(tables, number == len(parts))


def _nested(
    spans: _Spans, carried: int, tracks: Sequence[Track], trace_processor: Path | None
) -> Nesting:
    """The parents, as indices in the rank, and the depths of the slices that are not carried."""
    timeline = complete_timeline(spans.ts, spans.dur, spans.track)
    found = nesting(timeline, NO_FLOWS, tracks, trace_processor=trace_processor)
    return Nesting(
        parent=pa.array(spans.index).take(found.parent[carried:]),
        depth=found.depth[carried:],
        slice_out=found.slice_out,
        slice_in=found.slice_in,
        engine=found.engine,
    )
