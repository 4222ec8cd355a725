"""What the reader of JSON traces counts and states about a file, for the ledger."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.readers.flows import Flows
from traceql.readers.formats.kineto.gathering import Gathered, unread
from traceql.readers.nesting import Nesting
from traceql.readers.phases import COMPLETE, METADATA
from traceql.readers.remarks import Remark
from traceql.readers.tables import COUNT
from traceql.readers.timeline import Timeline


class Counts:
    """Events by phase; slices by category, with the sum of their durations."""

    def __init__(self) -> None:
        self.phases: Counter[str] = Counter()
        self._slices: Counter[str] = Counter()
        self._dur: Counter[str] = Counter()  # ns, computed independently of the slices' durations

    def add(self, columns: Gathered) -> None:
        """Takes the events of a file, or of a section of it."""
        self.phases += columns.phases
        cats = columns.slices.cat
        names = cats.dictionary.fill_null("").to_pylist()  # NULL and "" have the same name
        codes = cats.indices.to_numpy()
        dur = np.zeros(len(names), np.int64)
        np.add.at(dur, codes, columns.slices.counted_dur)
        events = np.bincount(codes, minlength=len(names))
        for name, number, ns in zip(names, events.tolist(), dur.tolist(), strict=True):
            if number:
                self._slices[name] += number
                self._dur[name] += ns

    def include(self, other: "Counts") -> None:
        """Takes the events of another part of the file."""
        self.phases += other.phases
        self._slices += other._slices
        self._dur.update(other._dur)  # durations may be negative

    def table(self) -> pa.Table:
        """The table `count` of the contract."""
        rows: list[dict[str, Any]] = [
            {"phase": "slice", "cat": cat, "events": events, "dur": self._dur[cat]}
            for cat, events in self._slices.items()
        ]
        for phase, events in self.phases.items():
            if phase != COMPLETE:
                rows.append({"phase": phase, "cat": "", "events": events, "dur": 0})
        return pa.Table.from_pylist(rows, COUNT)


def counted(columns: Gathered) -> Counts:
    """The counts of a whole file."""
    found = Counts()
    found.add(columns)
    return found


_OVERLAPPING = (
    "events that begin inside another event of their thread or stream and end after it, "
    "which are loaded too; all events"
)
_ARROWS = (
    "arrows loaded; arrows whose start is in the file. "
    "Arrows that do not end on a slice are not loaded"
)
_METADATA = "names, labels and sort indexes loaded into track; metadata events in the file"
_NEGATIVE = (
    "events with a negative duration, which are loaded unchanged "
    "and count as empty wherever time is measured; all events"
)
_NESTED = "events whose parent was computed without the trace processor; all events"


@dataclass(frozen=True)
class Found:
    """What was found in a file.

    Attributes:
        slices: all of them.
        overlapping: slices that begin inside another one of their track and end after it.
        negative: slices with a negative duration.
        arrows: flows that are loaded.
        finishes: ends of flows whose begin is in the file.
        metadata: metadata events.
        unread: those of them whose content is in no column.
    """

    slices: int
    overlapping: int
    negative: int
    arrows: int
    finishes: int
    metadata: int
    unread: int


def remarks(columns: Gathered, slices: Timeline, flows: Flows, nested: Nesting) -> Iterator[Remark]:
    """Those about a file that was nested by a trace processor, all at once."""
    found = Found(
        slices=len(slices),
        overlapping=int((slices.lane > 0).sum()),
        negative=int((slices.dur < 0).sum()),
        arrows=len(nested.slice_out),
        finishes=flows.finishes,
        metadata=columns.phases[METADATA],
        unread=unread(columns.about_tracks),
    )
    return stated(found, by_engine(nested.engine))


def by_engine(engine: str) -> Remark:
    """How slices got their parents: by a trace processor, which drops no event without saying."""
    return Remark("trace processor errors", 0, 0, True, f"errors reported by {engine}")


def by_streaming(nested: int, slices: int) -> Remark:
    """How slices got their parents: one after the other, without a trace processor."""
    return Remark("nested events", nested, slices, nested == slices, _NESTED)


def stated(found: Found, nested: Remark) -> Iterator[Remark]:
    """Those that every file gets, and those about something that the file has."""
    yield Remark("overlapping events", found.overlapping, found.slices, None, _OVERLAPPING)
    yield nested
    arrows, ends = found.arrows, found.finishes
    yield Remark("flows bound to slices", arrows, ends, True if arrows == ends else None, _ARROWS)
    if found.metadata:
        read = found.metadata - found.unread
        yield Remark("metadata events", read, found.metadata, not found.unread, _METADATA)
    if found.negative:
        yield Remark("negative durations", found.negative, found.slices, False, _NEGATIVE)
