"""All events of one rank, in the order of time, as the tables that a reader delivers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.rocprof.launches import correlations, is_call
from traceql.readers.formats.rocprof.ranks import RankPart, of_part
from traceql.readers.formats.rocprof.recording import EVENT, MARK, SAMPLE, Process
from traceql.readers.formats.rocprof.track_numbers import TrackNumbers
from traceql.readers.parents import WindowedNesting
from traceql.readers.tables import (
    ACTIVITY,
    COUNT,
    COUNTER,
    FLOW,
    INSTANT,
    JSON,
    NAME,
    SCHEMAS,
    SLICE,
)
from traceql.readers.timeline import Timeline, complete_timeline
from traceql.readers.total_time import require_total_fits
from traceql.readers.tracks import Track, track_table

Int64s = npt.NDArray[np.int64]
LARGEST_SIZE = 2**31 - 1
ROWS = 250_000  # of a part of the tables


class RankEvents:
    """The events that belong to one rank.

    Args:
        processes: all processes of the recording.
        part: what of them belongs to the rank.
    """

    def __init__(self, processes: Sequence[Process], part: RankPart) -> None:
        self._processes, self._part = processes, part
        found = [(n, *of_part(processes[n], part.places[n])) for n in sorted(part.places)]
        events = pa.concat_tables([EVENT.empty_table(), *(each[1] for each in found)])
        process = np.repeat([each[0] for each in found], [each[1].num_rows for each in found])
        correlation = [self._correlations(processes[n], table) for n, table, _, _ in found]
        ts, dur = _int64(events["ts"]), _int64(events["dur"])
        require_total_fits(dur)
        order = np.lexsort((-dur, ts))  # what encloses others comes before them
        self.events = events.take(pa.array(order)).combine_chunks()
        self.correlation = np.concatenate([np.empty(0, np.int64), *correlation])[order]
        self.lane = _lanes(self.events)
        self._numbers = TrackNumbers(processes)
        rows = self.events.append_column("lane", self.lane)
        self._ts, self._dur = ts[order], dur[order]
        self._track = self._numbers.of(rows, process.astype(np.int64)[order])
        self._marks = [(n, marks) for n, _, marks, _ in found]
        self._samples = [samples for _, _, _, samples in found]

    def __len__(self) -> int:
        return len(self._ts)

    @property
    def timeline(self) -> Timeline:
        return complete_timeline(self._ts, self._dur, self._track)

    @property
    def tracks(self) -> Sequence[Track]:
        return self._numbers.tracks

    @property
    def cat(self) -> pa.DictionaryArray:
        return self._column("cat").dictionary_encode().cast(NAME)

    @property
    def name(self) -> pa.DictionaryArray:
        return self._column("name").dictionary_encode().cast(NAME)

    @property
    def args(self) -> pa.Array:
        return pa.ExtensionArray.from_storage(JSON, self._column("args"))

    def tables(self) -> Iterator[dict[str, pa.Table]]:
        """All tables of the contract, part after part; the last has what is not of one slice."""
        nesting = WindowedNesting()
        borders = [*range(0, len(self), ROWS), len(self)]
        for first, after in pairwise(borders if len(self) else [0, 0]):
            part = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
            part["slice"] = self._slices(nesting, first, after)
            part["activity"] = self._activities(first, after)
            if after == len(self):
                part |= self._others()
            yield part

    def _others(self) -> dict[str, pa.Table]:
        instants, counters = self._instants(), self._counters()
        return {
            "flow": self._flows(),
            "instant": instants,
            "counter": counters,
            "track": track_table(self.tracks),
            "count": self._counts(),
        }

    def _correlations(self, process: Process, events: pa.Table) -> Int64s:
        """0 for other processes, whose numbers are the same and mean other calls."""
        if process is not self._part.process:
            return np.zeros(events.num_rows, np.int64)
        return correlations(events)

    def _column(self, name: str) -> pa.Array:
        return _flat(self.events[name])

    def _slices(self, nesting: WindowedNesting, first: int, after: int) -> pa.Table:
        """The slices of these rows."""
        rows, size, index = slice(first, after), after - first, np.arange(first, after)
        events = self.events.slice(first, size)
        ts, dur, track = self._ts[rows], self._dur[rows], self._track[rows]
        number, nested = pa.array(track), nesting.of_window(ts, dur, track, index)
        correlation = self.correlation[rows]
        pid, tid = self._numbers.places()
        columns = [
            pa.array(index),
            _flat(events["cat"]).dictionary_encode().cast(NAME),
            _flat(events["name"]).dictionary_encode().cast(NAME),
            pa.array(ts),
            pa.array(dur),
            pid.take(number),
            tid.take(number),
            number,
            nested.parent,
            nested.depth,
            pa.nulls(size, pa.int64()),
            pa.array(correlation, mask=correlation == 0),
            pa.ExtensionArray.from_storage(JSON, _flat(events["args"])),
        ]
        return pa.table(columns, schema=SLICE)

    def _activities(self, first: int, after: int) -> pa.Table:
        """The activities among these rows."""
        at = first + np.flatnonzero(_int64(self.events["on_gpu"].slice(first, after - first)))
        rows = self.events.take(pa.array(at)).combine_chunks()
        grid, block = sizes(rows)
        columns = [
            pa.array(at),
            rows["device"],
            self.lane.take(pa.array(at)),
            pc.if_else(pc.less(rows["bytes"], 0), None, rows["bytes"]),
            _lists(grid),
            _lists(block),
            pa.nulls(len(at), pa.int64()),
        ]
        return pa.table(columns, schema=ACTIVITY)

    def _flows(self) -> pa.Table:
        """An arrow from each call of HIP to its activities."""
        calls = np.flatnonzero(is_call(self.events) & (self.correlation != 0))
        activities = np.flatnonzero(_int64(self._column("on_gpu")))
        known, first = np.unique(self.correlation[calls], return_index=True)
        if not len(known):
            return FLOW.empty_table()
        wanted = self.correlation[activities]
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        joined = known[place] == wanted
        return pa.table(
            [pa.array(calls[first[place[joined]]]), pa.array(activities[joined])], schema=FLOW
        )

    def _instants(self) -> pa.Table:
        rows = pa.concat_tables([MARK.empty_table(), *(marks for _, marks in self._marks)])
        process = np.repeat([n for n, _ in self._marks], [len(marks) for _, marks in self._marks])
        track = pa.array(self._numbers.of(rows, process.astype(np.int64)))
        pid, tid = self._numbers.places()
        columns = [
            rows["cat"].combine_chunks().dictionary_encode().cast(NAME),
            rows["name"].combine_chunks().dictionary_encode().cast(NAME),
            rows["ts"].combine_chunks(),
            pid.take(track),
            tid.take(track),
            track,
            pa.ExtensionArray.from_storage(JSON, pa.nulls(len(rows), pa.large_string())),
        ]
        return pa.table(columns, schema=INSTANT)

    def _counters(self) -> pa.Table:
        rows = pa.concat_tables([SAMPLE.empty_table(), *self._samples])
        if not rows.num_rows:
            return COUNTER.empty_table()
        columns = [
            rows["name"].combine_chunks().dictionary_encode().cast(NAME),
            pa.nulls(rows.num_rows, pa.large_string()).dictionary_encode().cast(NAME),
            rows["ts"].combine_chunks(),
            rows["value"].combine_chunks(),
            pa.array(np.full(rows.num_rows, self._numbers.of_counters())),
        ]
        return pa.table(columns, schema=COUNTER)

    def _counts(self) -> pa.Table:
        """Events by kind and category, as the form of the recording counts them."""
        events: Counter[str] = Counter()
        dur: Counter[str] = Counter()
        for number, places in self._part.places.items():
            for one in self._processes[number].counted:
                if (one.on_gpu, one.number) in places:
                    events[one.cat] += one.events
                    dur[one.cat] += one.dur
        rows: list[Mapping[str, Any]] = [
            {"phase": "slice", "cat": cat, "events": n, "dur": dur[cat]}
            for cat, n in events.items()
        ]
        for phase, n in (("i", self._marks_counted()), ("counter", self._samples_counted())):
            if n:
                rows.append({"phase": phase, "cat": "", "events": n, "dur": 0})
        return pa.Table.from_pylist(rows, COUNT)

    def _marks_counted(self) -> int:
        """Marks are counted per process: of a rank's part of a process, those that were read."""
        return sum(
            self._processes[n].marks_counted if self._is_whole(n) else len(marks)
            for n, marks in self._marks
        )

    def _samples_counted(self) -> int:
        return sum(
            self._processes[n].samples_counted if self._is_whole(n) else len(samples)
            for (n, _), samples in zip(self._marks, self._samples, strict=True)
        )

    def _is_whole(self, number: int) -> bool:
        """Whether a process belongs to this rank alone."""
        process = self._processes[number]
        events, marks, samples = of_part(process, self._part.places[number])
        return (len(events), len(marks), len(samples)) == (
            len(process.events),
            len(process.marks),
            len(process.samples),
        )


def sizes(events: pa.Table) -> tuple[list[pa.Array], list[pa.Array]]:
    """The axes of the grid, in blocks, and of the block of each kernel."""
    grid, block = (
        [_flat(events[f"{what}_{axis}"]) for axis in "xyz"] for what in ("grid", "block")
    )
    return _blocks(grid, block), block


def are_possible(axes: Sequence[pa.Array]) -> pa.Array:
    """Whether the numbers of all axes are known, and can be."""
    fits = [pc.and_(pc.greater_equal(axis, 1), pc.less_equal(axis, LARGEST_SIZE)) for axis in axes]
    return pc.fill_null(pc.and_(pc.and_(fits[0], fits[1]), fits[2]), False)


def _lanes(events: pa.Table) -> pa.Array:
    """The stream of each activity: HIP's, or the queue of the GPU where no streams were told."""
    stream, queue = events["stream"], events["queue"]
    tells = bool(pc.any(pc.greater(stream, 0)).as_py())
    return _flat(stream if tells else pc.coalesce(queue, stream))


def _blocks(grid: Sequence[pa.Array], block: Sequence[pa.Array]) -> list[pa.Array]:
    """The number of blocks: AMD counts the grid in threads."""
    positive = [pc.if_else(pc.greater(size, 0), size, None) for size in block]
    return [
        pc.divide(pc.add(threads, pc.subtract(size, 1)), size)
        for threads, size in zip(grid, positive, strict=True)
    ]


def _lists(axes: Sequence[pa.Array]) -> pa.Array:
    """x, y and z as a list; NULL where one of them is unknown or cannot be."""
    known = are_possible(axes)
    at = pc.indices_nonzero(known)
    values = np.stack([_int64(axis.take(at)) for axis in axes], axis=1).ravel()
    lengths = np.where(known.to_numpy(zero_copy_only=False), 3, 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    return pa.ListArray.from_arrays(
        offsets, pa.array(values, pa.int64()).cast(pa.int32()), mask=pc.invert(known)
    )


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _int64(column: pa.ChunkedArray | pa.Array) -> Int64s:
    values: Int64s = column.to_numpy()
    return values.astype(np.int64)
