"""All events of a database, in the order of time, as columns."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.ascend.vocabulary import CATEGORIES, Category
from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.flows import Flows
from traceql.readers.formats.ascend_db.analysis import NO_ANALYSIS, Analysis
from traceql.readers.formats.ascend_db.connections import Connections, flow_table, joined
from traceql.readers.formats.ascend_db.counters import Samples
from traceql.readers.formats.ascend_db.device_sources import device_sources
from traceql.readers.formats.ascend_db.event import EVENT, counted, events
from traceql.readers.formats.ascend_db.host_sources import host_sources
from traceql.readers.formats.ascend_db.points import points
from traceql.readers.formats.ascend_db.profile import Profile
from traceql.readers.formats.ascend_db.steps import step_samples, step_spans
from traceql.readers.formats.ascend_db.track_numbers import TrackNumbers
from traceql.readers.formats.ascend_db.undescribed import find_undescribed
from traceql.readers.nesting import Nesting
from traceql.readers.tables import ACTIVITY, COUNT, INSTANT, JSON, SLICE
from traceql.readers.timeline import Timeline, complete_timeline
from traceql.readers.total_time import require_total_fits
from traceql.readers.tracks import Track, track_table

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_ON_DEVICE = (Category.KERNEL, Category.COMMUNICATION, Category.MEMCPY)
_CALLS = tuple(cat for cat, kind in CATEGORIES.items() if kind == EventKind.LAUNCH)
_OF_PYTORCH = (Category.OPERATOR, Category.ANNOTATION, Category.ENQUEUE, Category.DEQUEUE)
_LIBRARY = "::"  # in the names of operators, such as aten::mm, but not in those of their parts


class RankEvents:
    """The events of one file, which is one rank.

    Args:
        analysis: the sums that the profiler left beside the file.

    Attributes:
        undescribed: the number of compute tasks without a name.
    """

    def __init__(self, profile: Profile, analysis: Analysis = NO_ANALYSIS) -> None:
        self._profile = profile
        self._analysis = analysis
        self.step_spans = step_spans(profile)
        self.undescribed = find_undescribed(profile)
        self.sources = [*host_sources(profile), *device_sources(profile)]
        self._numbers = TrackNumbers()
        tables = [EVENT.empty_table(), *(events(profile, source) for source in self.sources)]
        rows = pa.concat_tables(tables).unify_dictionaries()
        ts, dur = _int64(rows["ts"]), _int64(rows["dur"])
        require_total_fits(dur)
        order = np.lexsort((-dur, ts))  # what encloses others comes before them
        self._rows = rows.take(pa.array(order)).combine_chunks()
        self.timeline: Timeline = complete_timeline(
            ts[order], dur[order], self._numbers.of(self._rows)
        )
        self.samples = Samples(profile)

    @property
    def tracks(self) -> Sequence[Track]:
        return self._numbers.tracks

    @property
    def cat(self) -> pa.DictionaryArray:
        return self.column("cat")

    @property
    def name(self) -> pa.DictionaryArray:
        return self.column("name")

    @property
    def args(self) -> pa.Array:
        return pa.ExtensionArray.from_storage(JSON, self.column("args"))

    @cached_property
    def flows(self) -> Flows:
        """None: databases join events by their connections alone."""
        nothing = np.empty(0, np.int64)
        return Flows(Timeline(nothing, nothing, nothing, nothing), [], nothing, nothing)

    def column(self, name: str) -> pa.Array:
        """A column of EVENT."""
        column = self._rows[name]
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def of(self, *categories: str) -> Bools:
        """Whether each event is of one of these categories."""
        chosen = np.array([cat in categories for cat in self.cat.dictionary.to_pylist()], np.bool_)
        if not len(chosen):
            return np.zeros(len(self.timeline), np.bool_)
        matches: Bools = chosen[self.cat.indices.to_numpy()]
        return matches

    def connections(self, at: Int64s) -> Int64s:
        """The connection of these events; -1 if one has none."""
        return _int64(self.column("connection").take(pa.array(at)).fill_null(-1))

    def tables(self, nested: Nesting) -> dict[str, pa.Table]:
        """All tables of the contract but the remarks."""
        instants, instant_count = self._instants()
        steps = step_samples(
            self._analysis.steps,
            self.step_spans,
            first_ts=int(self.timeline.ts[0]) if len(self.timeline) else 0,
            track=self._numbers.of_counters("step_trace_time") if self._analysis.steps else 0,
        )
        counters = pa.concat_tables([self.samples.table(self._numbers.of_counters), steps])
        return {
            "slice": self._slices(nested),
            "activity": self._activities(),
            "flow": flow_table(self._flows),
            "instant": instants,
            "counter": counters.unify_dictionaries(),
            "track": track_table(self.tracks),
            "count": self._counts(instant_count),
        }

    def _slices(self, nested: Nesting) -> pa.Table:
        number = pa.array(self.timeline.track)
        pid, tid = self._numbers.places()
        is_of_pytorch = pa.array(self.of(*_OF_PYTORCH))
        nothing = pa.scalar(None, pa.int64())
        columns = [
            pa.array(np.arange(len(self.timeline))),
            self.cat,
            self.name,
            pa.array(self.timeline.ts),
            pa.array(self.timeline.dur),
            pid.take(number),
            tid.take(number),
            number,
            nested.parent,
            nested.depth,
            self._external_ids(nested),
            pc.if_else(is_of_pytorch, nothing, self.column("connection")),
            self.args,
        ]
        return pa.table(columns, schema=SLICE)

    def _activities(self) -> pa.Table:
        at = np.flatnonzero(self.of(*_ON_DEVICE))
        rows = self._rows.take(pa.array(at)).combine_chunks()
        columns = [
            pa.array(at),
            rows["pid"],
            rows["stream"],
            rows["bytes"],
            pa.nulls(len(at), ACTIVITY.field("grid").type),
            pa.nulls(len(at), ACTIVITY.field("block").type),
            pa.nulls(len(at), pa.int64()),
        ]
        return pa.table(columns, schema=ACTIVITY)

    @cached_property
    def _pairs(self) -> Connections:
        return Connections(self._profile)

    @cached_property
    def _operator_connections(self) -> tuple[Int64s, Int64s]:
        """The operators (their indices) and their connections."""
        operators = np.flatnonzero(self.of(Category.OPERATOR))
        at, connection = self._pairs.of_ids(self.connections(operators))
        return operators[at], connection

    def _external_ids(self, nested: Nesting) -> pa.Array:
        """A number that an operator shares with the activities that it asked for."""
        found = np.full(len(self.timeline), -1)
        owners, connection = self._operator_connections
        activities = np.flatnonzero(self.of(*_ON_DEVICE))
        owner, at = joined(connection, self.connections(activities))
        operators = self._library_operators(owners[owner], nested)
        found[activities[at]] = found[operators] = operators
        return pa.array(found, mask=found < 0)

    def _library_operators(self, at: Int64s, nested: Nesting) -> Int64s:
        """The innermost operator of a library around each of these, else the operator itself."""
        names = self.name.dictionary.to_pylist()
        of_library = np.array([_LIBRARY in str(name) for name in names] + [False], np.bool_)
        chosen = of_library[self.name.indices.fill_null(len(names)).to_numpy()]
        chosen &= self.of(Category.OPERATOR)
        parent = _int64(nested.parent.fill_null(-1))
        found, around = at.copy(), at.copy()
        places = np.arange(len(at))
        while len(places):
            is_found = chosen[around[places]]
            found[places[is_found]] = around[places[is_found]]
            places = places[~is_found]
            around[places] = parent[around[places]]
            places = places[around[places] >= 0]
        return found

    @cached_property
    def _flows(self) -> list[tuple[Int64s, Int64s]]:
        """Arrows from operators and from calls to activities, and through the queue."""
        calls, activities = (np.flatnonzero(self.of(*cats)) for cats in (_CALLS, _ON_DEVICE))
        of_activity = self.connections(activities)
        call, at = joined(_known(self.connections(calls)), of_activity)
        owners, connection = self._operator_connections
        owner, below = joined(connection, of_activity)
        put, taken = (np.flatnonzero(self.of(cat)) for cat in (Category.ENQUEUE, Category.DEQUEUE))
        put_at, put_connection = self._pairs.of_ids(self.connections(put))
        taken_at, taken_connection = self._pairs.of_ids(self.connections(taken))
        source, target = joined(put_connection, taken_connection)
        return [
            (calls[call], activities[at]),
            (owners[owner], activities[below]),
            (put[put_at[source]], taken[taken_at[target]]),
        ]

    def _instants(self) -> tuple[pa.Table, int]:
        """The events without a duration, and how many there are by SQLite's count."""
        found, total = [INSTANT.empty_table()], 0
        for kind in points(self._profile):
            rows = kind.rows(self._profile)
            track = self._numbers.of(rows)
            pid, tid = self._numbers.places()
            columns = [
                rows["cat"].combine_chunks(),
                rows["name"].combine_chunks(),
                rows["ts"].combine_chunks(),
                pid.take(pa.array(track)),
                tid.take(pa.array(track)),
                pa.array(track),
                pa.ExtensionArray.from_storage(JSON, rows["args"].combine_chunks()),
            ]
            found.append(pa.table(columns, schema=INSTANT))
            total += kind.count(self._profile)
        return pa.concat_tables(found).unify_dictionaries(), total

    @property
    def _sample_count(self) -> int:
        return self.samples.count + sum(len(one.us) for one in self._analysis.steps)

    def _counts(self, instants: int) -> pa.Table:
        """Events by kind and category, counted by SQLite alone."""
        totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for source in self.sources:
            for cat, n, dur in counted(self._profile, source):
                totals[cat][0] += n
                totals[cat][1] += dur
        rows = [
            {"phase": "slice", "cat": cat, "events": n, "dur": dur}
            for cat, (n, dur) in totals.items()
        ]
        rows += [
            {"phase": phase, "cat": "", "events": n, "dur": 0}
            for phase, n in (("i", instants), ("counter", self._sample_count))
            if n
        ]
        return pa.Table.from_pylist(rows, COUNT)


def _known(connections: Int64s) -> Int64s:
    """Connections with -1, which stands for none, as one that nothing else has."""
    return np.where(connections < 0, -2, connections)


def _int64(column: pa.ChunkedArray | pa.Array) -> Int64s:
    values: Int64s = column.to_numpy()
    return values.astype(np.int64)
