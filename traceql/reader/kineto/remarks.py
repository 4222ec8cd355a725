"""What the reader of JSON traces states about a file, for the ledger."""

from collections.abc import Iterator

from traceql.reader.flows import Flows
from traceql.reader.kineto.gathering import Gathered
from traceql.reader.kineto.track_numbers import unread
from traceql.reader.nesting import Nesting
from traceql.reader.phases import METADATA
from traceql.reader.remarks import Remark
from traceql.reader.timeline import Timeline

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


def remarks(columns: Gathered, slices: Timeline, flows: Flows, nested: Nesting) -> Iterator[Remark]:
    """Those that every file gets, and those about something that the file has."""
    overlapping, total = int((slices.lane > 0).sum()), len(slices)
    yield Remark("overlapping events", overlapping, total, None, _OVERLAPPING)
    yield Remark("trace processor errors", 0, 0, True, f"errors reported by {nested.engine}")
    arrows, ends = len(nested.slice_out), flows.finishes
    yield Remark("flows bound to slices", arrows, ends, True if arrows == ends else None, _ARROWS)
    if metadata := columns.phases[METADATA]:
        unknown = unread(columns.about_tracks)
        yield Remark("metadata events", metadata - unknown, metadata, not unknown, _METADATA)
    if negative := int((slices.dur < 0).sum()):
        yield Remark("negative durations", negative, total, False, _NEGATIVE)
