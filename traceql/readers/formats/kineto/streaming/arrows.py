"""Arrows between slices, from flow ends that come flow by flow."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.phases import FLOW_BEGINS, FLOW_ENDS, FLOW_FINISHES, FLOW_PASSES
from traceql.readers.tables import FLOW
from traceql.readers.track_nesting import NONE

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Slice = tuple[int, int]  # index and start, ns
_BEGINS, _PASSES, _FINISHES = map(FLOW_ENDS.index, (FLOW_BEGINS, FLOW_PASSES, FLOW_FINISHES))


@dataclass
class _Flow:
    """What is known of a flow while its ends come."""

    key: object = None
    next_from: Slice | None = None  # where its next arrow begins
    begins: bool = False  # whether one of its ends begins it
    finishes: int = 0
    places: set[int] = field(default_factory=set)
    outs: list[int] = field(default_factory=list)
    ins: list[int] = field(default_factory=list)


class Arrows:
    """Draws arrows, and counts what the ledger says of them.

    Attributes:
        drawn: how many arrows there are.
        finishes: how many ends finish a flow that begins somewhere.
        places: the places of the ends of such flows.
    """

    def __init__(self, first: Slice) -> None:
        """Takes the first slice of the file.

        From it, the trace processor draws the arrow of an end that is bound to the next slice, if
        nothing has begun its flow until then.
        """
        self.drawn = self.finishes = 0
        self.places: set[int] = set()
        self._first = first
        self._flow = _Flow()

    def tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The arrows, as tables FLOW of the contract.

        Args:
            batches: ends with the columns family and id (of the flow), phase (place in FLOW_ENDS),
                place, is_late, bound (slice, -1 for none) and bound_ts; those of a flow follow each
                other in the order in which they are bound.
        """
        for batch in batches:
            if len(batch):
                yield self._drawn(self._of_batch(batch))
        yield self._drawn(self._closed())

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
        # The first flow may go on from the last batch, and the last flow in the next one.
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
        """Ends a flow; returns its arrows, none if nothing begins it."""
        flow, self._flow = self._flow, _Flow()
        if not flow.begins:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        self.finishes += flow.finishes
        self.places |= flow.places
        return np.array(flow.outs, np.int64), np.array(flow.ins, np.int64)

    def _drawn(self, found: list[tuple[Int64s, Int64s]] | tuple[Int64s, Int64s]) -> pa.Table:
        parts = found if isinstance(found, list) else [found]
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
    """Whether a flow, neither the first nor the last, begins nowhere, so that it has no arrows."""
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
