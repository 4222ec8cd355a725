"""Counts of a JSON trace, and checks of its load, for the ledger."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from traceql.readers.flows import Flows
from traceql.readers.formats.kineto.gathering import Gathered, unread
from traceql.readers.formats.kineto.kineto_json import Event, Repairs
from traceql.readers.formats.kineto.pairs import BORDERS
from traceql.readers.formats.kineto.samples import SAMPLE
from traceql.readers.tables import COUNT, Remark
from traceql.readers.timeline import COMPLETE, Timeline

if TYPE_CHECKING:  # it imports the trace processor, which streaming does without
    from traceql.readers.nesting import Nesting


_COUNTED_ELSEWHERE = {COMPLETE, SAMPLE, *BORDERS}


class Counts:
    """Events by phase; slices by category, with the sum of their durations."""

    def __init__(self) -> None:
        self.phases: Counter[str] = Counter()
        self._slices: Counter[str] = Counter()
        self._samples = 0
        self._dur: Counter[str] = Counter()  # ns, computed independently of the slices' durations

    def add(self, columns: Gathered) -> None:
        """Adds the events of a file or a section."""
        self.phases += columns.phases
        self._samples += columns.samples.given
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
        """Adds the events of another part of the file."""
        self.phases += other.phases
        self._samples += other._samples
        self._slices += other._slices
        self._dur.update(other._dur)  # durations may be negative

    def table(self) -> pa.Table:
        """The table `count` of the contract."""
        rows: list[dict[str, Any]] = [
            {"phase": "slice", "cat": cat, "events": events, "dur": self._dur[cat]}
            for cat, events in self._slices.items()
        ]
        for phase, events in self.phases.items():
            if phase not in _COUNTED_ELSEWHERE:
                rows.append({"phase": phase, "cat": "", "events": events, "dur": 0})
        if self._samples:
            rows.append({"phase": "counter", "cat": "", "events": self._samples, "dur": 0})
        return pa.Table.from_pylist(rows, COUNT)


_OVERLAPPING = (
    "events that begin inside another event of their thread or stream and end after it, "
    "which are loaded too; all events"
)
_ARROWS = (
    "arrows loaded; arrows whose start is in the file. "
    "Arrows that do not end on a slice are not loaded"
)
_METADATA = "names, labels and sort indexes loaded into track; metadata events in the file"
_BORDERS = (
    "begin and end events that are loaded as slices, two for each; all of them in the file. "
    "The others have no partner, and are not loaded"
)
_TEXTS = (
    "names and arguments with quotes, backslashes or control characters that the profiler did not "
    "escape, so that the file is not JSON; they are loaded as in the program"
)
_WRONG_BYTES = (
    "bytes of names or arguments that are not UTF-8, which are loaded as \\x and two digits"
)
_NO_END = (
    "0: the list of events is not closed, as if the program was killed; "
    "all that was written is loaded, and what it had not yet written is missing"
)
_CUT_EVENT = (
    "0: the file ends within an event, which is lost, as if the program was killed or a copy was "
    "cut off; all events before it are loaded, and what followed is missing"
)
_LAST_COMMA = "a comma that JSON does not allow there, so that the file was read twice"
_NEGATIVE = (
    "events with a negative duration, which are loaded unchanged "
    "and count as empty wherever time is measured; all events"
)


def remarks(
    columns: Gathered, slices: Timeline, flows: Flows, nested: "Nesting"
) -> Iterator[Remark]:
    """The checks of a file that the trace processor nested."""
    # It reports every event that it drops.
    engine = f"errors reported by {nested.engine}"
    return checks(
        Remark("trace processor errors", 0, 0, True, engine),
        columns.about_tracks,
        slices=len(slices),
        overlapping=int((slices.lane > 0).sum()),
        negative=int((slices.dur < 0).sum()),
        arrows=len(nested.slice_out),
        finishes=flows.finishes,
        borders=len(columns.borders),
        pairs=columns.pairs,
    )


def checks(
    nested: Remark,
    about_tracks: Sequence[Event],
    *,
    slices: int,
    overlapping: int,
    negative: int,
    arrows: int,
    finishes: int,
    borders: int,
    pairs: int,
) -> Iterator[Remark]:
    """The checks of a file.

    Args:
        nested: the check of what nested the slices.
        about_tracks: the metadata events.
        overlapping: slices that begin inside another one of their track and end after it.
        negative: slices with a negative duration.
        arrows: flows that are loaded.
        finishes: ends of flows whose begin is in the file.
        borders: events that begin or end a slice.
        pairs: slices made of them.
    """
    yield Remark("overlapping events", overlapping, slices, None, _OVERLAPPING)
    yield nested
    yield Remark(
        "flows bound to slices", arrows, finishes, True if arrows == finishes else None, _ARROWS
    )
    if metadata := len(about_tracks):
        left = unread(about_tracks)
        yield Remark("metadata events", metadata - left, metadata, not left, _METADATA)
    if borders:
        loaded = 2 * pairs
        yield Remark("begin and end events", loaded, borders, loaded == borders, _BORDERS)
    if negative:
        yield Remark("negative durations", negative, slices, False, _NEGATIVE)


def repair_checks(repairs: Repairs) -> Iterator[Remark]:
    """What was not right in a file, and was repaired or lost."""
    if texts := repairs.texts:
        yield Remark("texts not escaped", texts, texts, None, _TEXTS)
    if wrong := repairs.wrong_bytes:
        yield Remark("bytes not UTF-8", wrong, wrong, None, _WRONG_BYTES)
    if repairs.has_cut_event:
        yield Remark("end of the file", 0, 1, False, _CUT_EVENT)
    elif repairs.has_no_end:
        yield Remark("end of the file", 0, 1, None, _NO_END)
    if repairs.has_last_comma:
        yield Remark("comma behind the last event", 1, 1, None, _LAST_COMMA)
