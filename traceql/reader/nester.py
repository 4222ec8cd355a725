"""Parents and depths of slices, and the slices of flow ends, of many tracks at a time.

A nester does what `TrackNesting` does for each track, in compiled code where that can run.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.compiled import Instance, new_instance
from traceql.errors import TraceqlError
from traceql.reader.coded import runs
from traceql.reader.track_nesting import Nested, TrackNesting

Int64s = npt.NDArray[np.int64]
_RESULTS = 10  # numbers that nest.c reports


@dataclass(frozen=True)
class Placed:
    """What was found for some events.

    Attributes:
        parent: the slice that encloses each slice; -1 at the top.
        depth: how many slices enclose it.
        overlapping: how many slices overlap others without nesting.
        end: the flow ends that were bound.
        bound: the slice of each.
        bound_ts: the start of that slice, ns.
        at: the time at which the end is bound, ns: its own, or that of the next slice.
        is_late: whether it is bound to the next slice.
    """

    parent: Int64s
    depth: Int64s
    overlapping: int
    end: Int64s
    bound: Int64s
    bound_ts: Int64s
    at: Int64s
    is_late: npt.NDArray[np.bool_]


class Nester(ABC):
    """Takes events; what is open on a track goes on with the next events."""

    @abstractmethod
    def add(self, track: Int64s, ts: Int64s, dur: Int64s, number: Int64s, kind: Int64s) -> Placed:
        """Takes slices and flow ends, those of a track in the order that `TrackNesting` wants.

        Args:
            track: number of the track, from 0; memory grows with the largest number.
            ts: start of a slice or time of an end, ns.
            dur: duration of a slice, ns, not negative.
            number: the number of a slice among all slices, or of an end among all ends.
            kind: SLICE, END or LATE_END.
        """


def new_nester() -> Nester:
    compiled = new_instance("nest")
    return CompiledNester(compiled) if compiled else PythonNester()


class PythonNester(Nester):
    """For machines that cannot run WebAssembly."""

    def __init__(self) -> None:
        self._tracks: defaultdict[int, TrackNesting] = defaultdict(TrackNesting)

    def add(self, track: Int64s, ts: Int64s, dur: Int64s, number: Int64s, kind: Int64s) -> Placed:
        found = Nested()
        for own in runs(track):
            events = [column[own].tolist() for column in (ts, dur, number, kind)]
            nesting = self._tracks[int(track[own.start])]
            nesting.add(events[0], events[1], events[2], events[3], found)
        return Placed(
            parent=np.array(found.parent, np.int64),
            depth=np.array(found.depth, np.int64),
            overlapping=found.overlapping,
            end=np.array(found.end, np.int64),
            bound=np.array(found.bound, np.int64),
            bound_ts=np.array(found.bound_ts, np.int64),
            at=np.array(found.at, np.int64),
            is_late=np.array(found.is_late, np.bool_),
        )


class CompiledNester(Nester):
    """Runs nest.c."""

    _ROWS = 1 << 17  # at once

    def __init__(self, compiled: Instance) -> None:
        self._compiled = compiled
        self._columns = compiled.call("reserve", self._ROWS)

    def add(self, track: Int64s, ts: Int64s, dur: Int64s, number: Int64s, kind: Int64s) -> Placed:
        columns = (track, ts, dur, number, kind)
        begins = range(0, max(len(track), 1), self._ROWS)
        parts = [self._nested([c[b : b + self._ROWS] for c in columns]) for b in begins]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _nested(self, columns: list[Int64s]) -> Placed:
        memory, rows = self._compiled.memory(), len(columns[0])
        for place, values in enumerate(columns):
            begin = self._columns + 8 * place * self._ROWS
            memory[begin : begin + 8 * rows].view(np.int64)[:] = values
        if not self._compiled.call("nest", rows):
            raise TraceqlError(
                "its events overlap so much that 3 GiB of memory do not suffice to nest them"
            )
        found = self._compiled.numbers(self._compiled.call("results"), _RESULTS)
        slices, ends, overlapping = found[:3]
        at = found[3:]
        memory = self._compiled.memory()

        def column(place: int, rows: int) -> Int64s:
            copied: Int64s = memory[at[place] : at[place] + 8 * rows].view(np.int64).copy()
            return copied

        return Placed(
            parent=column(0, slices),
            depth=column(1, slices),
            overlapping=overlapping,
            end=column(2, ends),
            bound=column(3, ends),
            bound_ts=column(4, ends),
            at=column(5, ends),
            is_late=memory[at[6] : at[6] + ends].view(np.bool_).copy(),
        )


def _joined(parts: list[Placed]) -> Placed:
    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return Placed(
        parent=column("parent"),
        depth=column("depth"),
        overlapping=sum(part.overlapping for part in parts),
        end=column("end"),
        bound=column("bound"),
        bound_ts=column("bound_ts"),
        at=column("at"),
        is_late=column("is_late"),
    )
