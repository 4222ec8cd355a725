"""Collects the ends of flows, and finds which of them belong to the same flow."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.coded import DistinctValues, Recoding, concatenated, distinct_rows
from traceql.readers.flows import EndKind, Flows
from traceql.readers.formats.kineto.event_times import times
from traceql.readers.formats.kineto.kineto_json import Event, Raw
from traceql.readers.formats.kineto.scan import ScannedEnds
from traceql.readers.formats.kineto.track_numbers import TrackNumbers
from traceql.readers.phases import FLOW_ENDS, FLOW_FINISHES
from traceql.readers.timeline import Timeline, point_timeline

Int64s = npt.NDArray[np.int64]
_ZERO = Raw(b"0")
END = pa.schema(
    [
        ("ts", pa.int64()),  # ns
        ("phase", pa.int64()),  # place in FLOW_ENDS
        ("is_late", pa.bool_()),  # whether it is bound to the slice that begins next
        ("family", pa.int64()),  # name and category of its flow, as a number
        ("id", pa.binary()),  # of its flow, as in the file
        ("place", pa.int64()),  # process and thread, as a number
    ]
)


class FlowEnds:
    """Collects the ends of flows, batch by batch."""

    def __init__(self, tracks: TrackNumbers) -> None:
        self._tracks = tracks
        self._kinds, self._ids, self._places = DistinctValues(), DistinctValues(), DistinctValues()
        self._kind: list[Int64s] = []
        self._id: list[Int64s] = []
        self._ts: list[Int64s] = []
        self._place: list[Int64s] = []
        self._scanned_places = Recoding(self._places)

    def add(self, events: Sequence[Event]) -> None:
        """Appends ends. Two ids are the same if their text in the file is the same."""
        self._kind.append(self._kind_codes(events))
        self._id.append(self._ids.of([bytes(e.id or _ZERO) for e in events]))
        self._ts.append(times(events))
        self._place.append(self._places.of([(e.pid, e.tid) for e in events]))

    def add_scanned(self, ends: ScannedEnds) -> None:
        """Appends ends, as `add` does."""
        described = (ends.phase, ends.name, ends.cat, ends.binding)
        rows, place = distinct_rows([one.codes for one in described])
        kinds = [
            tuple(one.values[code] for one, code in zip(described, row, strict=True))
            for row in rows
        ]
        self._kind.append(Recoding(self._kinds).of(kinds, place))
        self._id.append(self._ids.of(ends.id))
        self._ts.append(ends.ts)
        self._place.append(self._scanned_places.of(ends.place.values, ends.place.codes))

    def _kind_codes(self, events: Sequence[Event]) -> Int64s:
        phases, names = {e.ph for e in events}, {e.name for e in events}
        cats, bindings = {e.cat for e in events}, {e.bp for e in events}
        if len(phases) == len(names) == len(cats) == len(bindings) == 1:  # the usual case
            kind = (phases.pop(), names.pop(), cats.pop(), bindings.pop())
            return np.full(len(events), self._kinds[kind])
        return self._kinds.of([(e.ph, e.name, e.cat, e.bp) for e in events])

    def table(self, families: DistinctValues, places: DistinctValues) -> pa.Table:
        """The ends in the order of the file, with the columns of `END`.

        Args:
            families: numbers the names and categories of flows, also for other sections of a file.
            places: numbers the processes and threads of ends likewise.
        """
        kind, kinds = concatenated(self._kind), list(self._kinds)
        phase = np.array([FLOW_ENDS.index(phase) for phase, *_ in kinds], np.int64)
        is_late = np.array([phase == FLOW_FINISHES and bp != "e" for phase, *_, bp in kinds], bool)
        family = families.of([(name, cat) for _, name, cat, _ in kinds])
        ids = pa.array(list(self._ids), pa.binary())
        of_columns = [
            pa.array(concatenated(self._ts)),
            pa.array(phase[kind]),
            pa.array(is_late[kind]),
            pa.array(family[kind]),
            ids.take(pa.array(concatenated(self._id))),
            pa.array(places.of(list(self._places))[concatenated(self._place)]),
        ]
        return pa.table(of_columns, schema=END)

    def flows(self, slices: Timeline) -> Flows:
        """All flows that begin; the profiler also writes ends of flows that never began."""
        kinds, kind = list(self._kinds), concatenated(self._kind)
        phase = np.array([FLOW_ENDS.index(phase) for phase, *_ in kinds], np.int64)[kind]
        number = _flow_numbers(kinds, kind, concatenated(self._id))
        begun = np.isin(number, number[phase == 0])
        order = np.argsort(phase, kind="stable")
        kept = order[begun[order]]
        track = self._tracks.numbered(list(self._places), concatenated(self._place)[kept])
        ends = point_timeline(concatenated(self._ts)[kept], track, slices)
        return Flows(ends, kinds, kind[kept], number[kept])


def _flow_numbers(kinds: Sequence[EndKind], kind: Int64s, ids: Int64s) -> Int64s:
    """The number of the flow of each end; a flow is identified by name, category and id."""
    families = DistinctValues()
    family = families.of([(name, cat) for _, name, cat, _ in kinds])
    if len(families) <= 1:
        return ids
    # Numbers without holes, because arrays are as long as the largest number.
    place: Int64s = np.unique(ids * len(families) + family[kind], return_inverse=True)[1]
    return place
