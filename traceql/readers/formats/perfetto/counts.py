"""The number of slices per category that a native Perfetto trace has, for the ledger."""

from collections import Counter
from typing import Any

import pyarrow as pa

from traceql.readers.formats.perfetto.track_events import TrackEvents
from traceql.readers.tables import COUNT


def count_table(in_file: TrackEvents, cats: pa.ChunkedArray) -> pa.Table:
    """One row per category, and one per kind of track event that no table gets.

    If other packets than track events may make slices, only a category with too few slices has a
    number. Durations are unknown: they need the slices nested, which the trace processor does.

    Args:
        cats: the category of each slice that was read.
    """
    kept = Counter({row["values"] or "": row["counts"] for row in cats.value_counts().to_pylist()})
    rows = []
    for cat in in_file.slices | kept:
        events = in_file.slices[cat]
        is_known = kept[cat] < events or not in_file.may_have_others
        rows.append(_row("slice", cat, events if is_known else None, None))
    rows += [_row(kind, "", events, 0) for kind, events in in_file.unread.items()]
    return pa.Table.from_pylist(rows, COUNT)


def _row(phase: str, cat: str, events: int | None, dur: int | None) -> dict[str, Any]:
    return {"phase": phase, "cat": cat, "events": events, "dur": dur}
