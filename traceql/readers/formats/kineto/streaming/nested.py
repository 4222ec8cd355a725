"""Nests all slices of a file track by track, and binds its flows to slices."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.kineto.streaming.sections import NUMBERED_END, SPAN, Sections
from traceql.readers.formats.kineto.times import Int64s
from traceql.readers.nester import Nester
from traceql.readers.phases import FLOW_BEGINS, FLOW_ENDS, FLOW_FINISHES, FLOW_PASSES
from traceql.readers.tables import FLOW
from traceql.readers.track_nesting import NONE, SLICE

Bools = npt.NDArray[np.bool_]
Slice = tuple[int, int]  # index and start, ns
_BEGINS, _PASSES, _FINISHES = map(FLOW_ENDS.index, (FLOW_BEGINS, FLOW_PASSES, FLOW_FINISHES))


@dataclass
class _Flow:
    """The ends of a flow so far."""

    key: object = None
    next_from: Slice | None = None  # the start of its next arrow
    begins: bool = False  # whether it has a begin
    finishes: int = 0
    places: set[int] = field(default_factory=set)
    outs: list[int] = field(default_factory=list)
    ins: list[int] = field(default_factory=list)


class Arrows:
    """Makes arrows from the ends of flows, and counts them for the ledger.

    Attributes:
        drawn: the number of arrows.
        finishes: the number of finishes of flows that have a begin.
        places: the places of the ends of such flows.
    """

    def __init__(self, first: Slice) -> None:
        """Takes the first slice of the file.

        The trace processor uses it as the start of an arrow whose end is bound to the next slice
        before its flow has begun.
        """
        self.drawn = self.finishes = 0
        self.places: set[int] = set()
        self._first = first
        self._flow = _Flow()

    def tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The arrows, as tables FLOW of the contract.

        Args:
            batches: ends with the columns family and id (of the flow), phase (index in FLOW_ENDS),
                place, is_late, bound (slice, -1 for none) and bound_ts, sorted by flow and by the
                order in which they are bound.
        """
        for batch in batches:
            if len(batch):
                yield self._table(self._of_batch(batch))
        yield self._table([self._closed()])

    def _of_batch(self, batch: pa.RecordBatch) -> list[tuple[Int64s, Int64s]]:
        found = []
        starts = _starts_of_flows(batch)
        sizes = np.diff(np.append(starts, len(batch)))
        columns = {name: batch[name].to_numpy() for name in ("phase", "place", "bound", "bound_ts")}
        is_late = batch["is_late"].to_numpy(zero_copy_only=False)
        usual = _are_usual(starts, sizes, columns, is_late)
        of_usual = np.repeat(usual, sizes)
        first = np.repeat(starts, sizes)[of_usual]
        row = np.flatnonzero(of_usual)
        first, row = first[row > first], row[row > first]
        out, in_ = columns["bound"][first], columns["bound"][row]
        swapped = columns["bound_ts"][first] > columns["bound_ts"][row]
        found.append((np.where(swapped, in_, out), np.where(swapped, out, in_)))
        self.finishes += len(row)
        self.places.update(np.unique(columns["place"][of_usual]).tolist())
        # The first flow may continue from the last batch, and the last flow in the next one.
        rare_rows = ~of_usual & ~np.repeat(_are_void(starts, columns["phase"]), sizes)
        for rare in batch.filter(pa.array(rare_rows)).to_pylist():
            if (key := (rare["family"], rare["id"])) != self._flow.key:
                found.append(self._closed())
                self._flow.key = key
            self._add(rare)
        return found

    def _add(self, row: dict[str, int]) -> None:
        flow, phase = self._flow, row["phase"]
        flow.places.add(row["place"])
        flow.begins |= phase == _BEGINS
        flow.finishes += phase == _FINISHES
        bound = row["bound"], row["bound_ts"]
        if bound[0] == NONE:
            return
        if phase == _BEGINS:
            flow.next_from = flow.next_from or bound
            return
        if row["is_late"]:
            flow.next_from = flow.next_from or self._first
        if flow.next_from:
            earlier, later = sorted((flow.next_from, bound), key=lambda slice_: slice_[1])
            flow.outs.append(earlier[0])
            flow.ins.append(later[0])
            if phase == _PASSES:
                flow.next_from = bound

    def _closed(self) -> tuple[Int64s, Int64s]:
        """Ends a flow; returns its arrows, none if it has no begin."""
        flow, self._flow = self._flow, _Flow()
        if not flow.begins:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        self.finishes += flow.finishes
        self.places |= flow.places
        return np.array(flow.outs, np.int64), np.array(flow.ins, np.int64)

    def _table(self, parts: list[tuple[Int64s, Int64s]]) -> pa.Table:
        columns = [np.concatenate(one) for one in zip(*parts, strict=True)]
        self.drawn += len(columns[0])
        return pa.table([pa.array(column) for column in columns], schema=FLOW)


def _starts_of_flows(batch: pa.RecordBatch) -> Int64s:
    """The first row of each flow in a batch."""
    differs = np.zeros(len(batch) - 1, bool)
    for name in ("family", "id"):
        column = batch[name]
        differs |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(True, differs))


def _are_void(starts: Int64s, phase: Int64s) -> Bools:
    """Whether a flow, neither the first nor the last, has no begin and thus no arrows."""
    void: Bools = ~np.logical_or.reduceat(phase == _BEGINS, starts)
    void[[0, -1]] = False
    return void


def _are_usual(starts: Int64s, sizes: Int64s, columns: dict[str, Int64s], is_late: Bools) -> Bools:
    """Whether a flow, neither the first nor the last, begins at a slice and finishes at others."""
    phase, is_bound = columns["phase"], columns["bound"] != NONE
    finishes = (phase == _FINISHES) & is_bound & ~is_late
    begins = (phase[starts] == _BEGINS) & is_bound[starts]
    usual: Bools = begins & (np.add.reduceat(finishes, starts, dtype=np.int64) == sizes - 1)
    usual[[0, -1]] = False
    return usual


_PLACED = pa.schema([(name, pa.int64()) for name in ("index", "parent", "depth")])
_BOUND = pa.schema(
    [
        *((name, pa.int64()) for name in ("end", "bound", "bound_ts", "bound_at")),
        ("binds_late", pa.bool_()),
    ]
)
_BY_TRACK = """
    SELECT track, ts, dur, number, 0 AS kind
    FROM span
    UNION ALL
    SELECT track, ts, 0, number, 1 + is_late::BIGINT
    FROM "end"
    INNER JOIN place_track USING (place)
    ORDER BY track, ts, kind > 0, dur DESC, number
"""
_BY_INDEX = "SELECT parent, depth FROM placed ORDER BY index"
_BY_FLOW = f"""
    SELECT
        family,
        id,
        phase,
        place,
        is_late,
        COALESCE(bound, {NONE}) AS bound,
        COALESCE(bound_ts, 0) AS bound_ts
    FROM "end"
    LEFT JOIN bound ON number = bound."end"
    ORDER BY family, id, COALESCE(bound_at, ts), COALESCE(binds_late, FALSE) DESC, phase, number
"""


@dataclass(frozen=True)
class Placed:
    """The number of nested slices, and of those that overlap."""

    slices: int
    overlapping: int


def nest(found: Sections) -> Placed:
    """Writes the parents of all slices into placed, and the slices of flow ends into bound."""
    slices = overlapping = 0
    nesting = Nester()
    tracks = found.tracks.known(list(found.end_places))
    places = pa.table({"place": np.arange(len(tracks)), "track": tracks})
    on_a_track = places.filter(pa.array(tracks != NONE))
    for batch in found.scratch.query(
        _BY_TRACK, {"span": SPAN, "end": NUMBERED_END}, kept="end", place_track=on_a_track
    ):
        track, ts, dur, number, kind = (column.to_numpy() for column in batch.columns)
        nested = nesting.add(track, ts, dur, number, kind)
        index = number[kind == SLICE]
        placed = [index, nested.parent, nested.depth]
        found.scratch.add("placed", pa.table(list(map(pa.array, placed)), schema=_PLACED))
        found.scratch.add("bound", pa.table(list(map(pa.array, nested.bound)), schema=_BOUND))
        slices += len(index)
        overlapping += nested.overlapping
    return Placed(slices, overlapping)


def places_of_slices(found: Sections) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The parent and the depth of the slices of each section, in the order of the file."""
    batches = found.scratch.query(_BY_INDEX, {"placed": _PLACED})
    left = pa.table({"parent": pa.array([], pa.int64()), "depth": pa.array([], pa.int64())})
    for size in found.slices:
        while len(left) < size and (batch := next(batches, None)) is not None:
            left = pa.concat_tables([left, pa.Table.from_batches([batch])])
        part = left.slice(0, size).combine_chunks()
        left = left.slice(size)
        parent = part["parent"].to_numpy()
        yield pa.array(parent, mask=parent == NONE), part["depth"].combine_chunks()


def ends_by_flow(found: Sections) -> Iterator[pa.RecordBatch]:
    """The ends of flows with their slices, flow by flow, for `Arrows`."""
    return found.scratch.query(_BY_FLOW, {"end": NUMBERED_END, "bound": _BOUND})
