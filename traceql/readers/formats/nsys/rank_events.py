"""The events of one rank of an export in a window of time, as columns in the order of time."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import TraceCorrupt
from traceql.readers.coded import DistinctValues
from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.dialects.nsys.vocabulary import CATEGORIES
from traceql.readers.formats.nsys.processes import PID_BITS
from traceql.readers.formats.nsys.recording import RankRecording
from traceql.readers.formats.nsys.track_numbers import TrackNumbers
from traceql.readers.formats.nsys.window_rows import named
from traceql.readers.formats.nsys.windows import WHOLE, Window
from traceql.readers.parents import Parents
from traceql.readers.tables import (
    ACTIVITY,
    COUNTER,
    INSTANT,
    JSON,
    NAME,
    SLICE,
)
from traceql.readers.total_time import require_total_fits
from traceql.readers.tracks import Track
from traceql.readers.unpacked import ANEW

Int64s = npt.NDArray[np.int64]
_UNIT = r"^(?P<name>.*?)(?: \[(?P<unit>[^\]]*)\])?$"
_FARTHEST_NS = 2**62  # 146 years
ON_GPU = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)


class RankEvents:
    """The events that belong to one rank, of all times or of one window.

    Args:
        rows: the events, as `window_rows` has them.
        numbers: the tracks of the rank, with those of earlier windows.
        first: the index of the first event, which is the number of events in earlier windows.

    Attributes:
        ts: the start of each event, ns since the session began, sorted.
        dur: its duration, ns.
        track: its track.
    """

    def __init__(
        self,
        rank: RankRecording,
        rows: pa.Table,
        numbers: TrackNumbers,
        window: Window = WHOLE,
        *,
        first: int = 0,
    ) -> None:
        self._rank, self._rows, self._window, self._first = rank, rows, window, first
        self._numbers = numbers
        sources = [one for one, _ in rank.events]
        source = rows["source"].to_numpy()
        cats = DistinctValues()
        codes = cats.of([one.category.value for one in sources])
        self.cat = pa.DictionaryArray.from_arrays(
            pa.array(codes[source], pa.int32()), pa.array(list(cats), pa.large_string())
        )
        on_gpu = np.array([one.on_gpu for one in sources], np.bool_)[source]
        self.ts, self.dur = _int64(rows["ts"]), _int64(rows["dur"])
        require_total_fits(self.dur)
        _require_near_session(self.ts)
        self.track: Int64s = self._numbers.of(rows, on_gpu)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def tracks(self) -> Sequence[Track]:
        return self._numbers.tracks

    @property
    def name(self) -> pa.DictionaryArray:
        return self._column("name")

    @property
    def args(self) -> pa.Array:
        return pa.ExtensionArray.from_storage(JSON, self._column("args"))

    @property
    def index(self) -> Int64s:
        """The index of each event in the rank."""
        return self._first + np.arange(len(self))

    def of_kind(self, *kinds: EventKind) -> npt.NDArray[np.bool_]:
        """Whether each event is of one of these kinds."""
        categories = self.cat.dictionary.to_pylist()
        matches = np.array([CATEGORIES.get(cat) in kinds for cat in categories], np.bool_)
        indices: Int64s = self.cat.indices.to_numpy()
        return matches[indices] if len(matches) else np.zeros(0, np.bool_)

    def correlations(self, *kinds: EventKind) -> tuple[Int64s, Int64s]:
        """The index and the correlation of each event of these kinds; 0 if it has none."""
        at = np.flatnonzero(self.of_kind(*kinds))
        return self._first + at, _int64(self._column("correlation").take(pa.array(at)).fill_null(0))

    def calls(self) -> tuple[Int64s, Int64s]:
        """The index and the correlation of each call of the rank's own process.

        Correlations are those of a process: another one, such as an API server, has the same.
        """
        index, correlation = self.correlations(EventKind.LAUNCH)
        own = self._is_own
        return index[own], correlation[own]

    def graph_launches(self) -> Int64s:
        """The correlation of each of these calls that launches a CUDA graph."""
        name = self.name.take(pa.array(np.flatnonzero(self.of_kind(EventKind.LAUNCH))))
        is_launch = pc.match_substring(name.dictionary, "GraphLaunch").take(name.indices)
        launches: npt.NDArray[np.bool_] = pc.fill_null(is_launch, False).to_numpy(
            zero_copy_only=False
        )
        return self.correlations(EventKind.LAUNCH)[1][launches & self._is_own]

    @cached_property
    def _is_own(self) -> npt.NDArray[np.bool_]:
        """Whether each call is of the process whose GPU this is."""
        thread = _int64(self._column("global_id"))[self.of_kind(EventKind.LAUNCH)]
        if self._rank.part.process is None:
            return np.ones(len(thread), np.bool_)
        own: npt.NDArray[np.bool_] = thread >> PID_BITS == self._rank.part.process >> PID_BITS
        return own

    def _own_correlations(self) -> pa.Array:
        """The correlation of each event; NULL for calls of another process, which has the same."""
        foreign = np.zeros(len(self), np.bool_)
        foreign[self.of_kind(EventKind.LAUNCH)] = ~self._is_own
        return pc.if_else(pa.array(foreign), None, self._column("correlation"))

    def tables(self, nested: Parents) -> dict[str, pa.Table]:
        """The tables with the events of the window.

        Args:
            nested: the parents of the events by index in the rank, and their depths.
        """
        return {
            "slice": self._slices(nested),
            "activity": self._activities(),
            "instant": self._instants(),
            "counter": self._counters(),
        }

    def _column(self, name: str) -> pa.Array:
        column = self._rows[name]
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def _slices(self, nested: Parents) -> pa.Table:
        number = pa.array(self.track)
        pid, tid = self._numbers.places()
        columns = [
            pa.array(self.index),
            self.cat,
            self.name,
            pa.array(self.ts),
            pa.array(self.dur),
            pid.take(number),
            tid.take(number),
            number,
            nested.parent,
            nested.depth,
            pa.nulls(len(self), pa.int64()),
            self._own_correlations(),
            self.args,
        ]
        return pa.table(columns, schema=SLICE)

    def _activities(self) -> pa.Table:
        at = np.flatnonzero(self.of_kind(*ON_GPU))
        rows = self._rows.take(pa.array(at)).combine_chunks()
        columns = [
            pa.array(self._first + at),
            rows["global_id"],
            rows["stream"],
            rows["bytes"],
            _triples(rows, "grid"),
            _triples(rows, "block"),
            rows["graph_node"],
        ]
        return pa.table(columns, schema=ACTIVITY)

    def _instants(self) -> pa.Table:
        found = []
        for kind, chosen in self._rank.points:
            rows = kind.found(self._rank.export, chosen, self._window)
            name = named(self._rank.export, rows["name_id"], rows["name"])
            track = self._numbers.of(rows, np.full(rows.num_rows, kind.on_gpu))
            pid, tid = self._numbers.places()
            columns = [
                pa.array([kind.category.value] * rows.num_rows, pa.large_string()).cast(NAME),
                name,
                rows["ts"].combine_chunks(),
                pid.take(pa.array(track)),
                tid.take(pa.array(track)),
                pa.array(track),
                pa.ExtensionArray.from_storage(JSON, rows["args"].combine_chunks()),
            ]
            found.append(pa.table(columns, schema=INSTANT))
        return pa.concat_tables(found).unify_dictionaries() if found else INSTANT.empty_table()

    def _counters(self) -> pa.Table:
        metrics, chosen = self._rank.metrics, self._rank.samples
        rows = metrics.samples(chosen, self._window) if chosen else None
        if rows is None or not rows.num_rows:
            return COUNTER.empty_table()
        codes = rows["name"].combine_chunks()
        split = pc.extract_regex(codes.dictionary, _UNIT)
        name, unit = (
            pc.struct_field(split, part).cast(NAME.value_type) for part in ("name", "unit")
        )
        unit = pc.if_else(pc.equal(unit, ""), pa.scalar(None, NAME.value_type), unit)
        if metrics.in_hertz:
            unit = pc.if_else(pc.equal(unit, "MHz"), pa.scalar("Hz", NAME.value_type), unit)
        columns = [
            name.take(codes.indices).dictionary_encode(),
            unit.take(codes.indices).dictionary_encode(),
            rows["ts"].combine_chunks(),
            rows["value"].combine_chunks(),
            pa.array(self._numbers.of_metrics(rows["type_id"].to_numpy())),
        ]
        return pa.table(columns, schema=COUNTER)


def _require_near_session(ts: Int64s) -> None:
    """Raises TraceCorrupt for times that would not fit 64 bits after a shift."""
    far = ts[(ts < -_FARTHEST_NS) | (ts > _FARTHEST_NS)]
    if len(far):
        raise TraceCorrupt(
            f"an event begins {abs(int(far[0])):,} ns from the start of the session, which is no "
            f"time; {ANEW}"
        )


def _int64(column: pa.ChunkedArray | pa.Array) -> Int64s:
    values: Int64s = column.to_numpy()
    return values.astype(np.int64)


def _triples(rows: pa.Table, what: str) -> pa.Array:
    """x, y and z as a list; NULL where one of them is."""
    axes = [rows[f"{what}_{axis}"].combine_chunks() for axis in "xyz"]
    known = pc.and_(pc.and_(axes[0].is_valid(), axes[1].is_valid()), axes[2].is_valid())
    at = pc.indices_nonzero(known)
    values = np.stack([_int64(axis.take(at)) for axis in axes], axis=1).ravel()
    sizes = np.where(known.to_numpy(zero_copy_only=False), 3, 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    return pa.ListArray.from_arrays(
        offsets, pa.array(values, pa.int64()).cast(pa.int32()), mask=pc.invert(known)
    )
