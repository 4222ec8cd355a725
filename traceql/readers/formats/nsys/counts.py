"""How many events of a rank are in an export, counted by SQLite alone."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from traceql.readers.formats.nsys.recording import RankRecording
from traceql.readers.tables import COUNT


def counts(rank: RankRecording) -> pa.Table:
    """The table `count` of the contract."""
    events: Counter[str] = Counter()
    dur: Counter[str] = Counter()
    for source, found in rank.events:
        events[source.category.value] += found.kept
        dur[source.category.value] += found.dur
    rows: list[Mapping[str, Any]] = [
        {"phase": "slice", "cat": cat, "events": n, "dur": dur[cat]} for cat, n in events.items()
    ]
    for _, found in rank.points:
        rows.append({"phase": "i", "cat": "", "events": found.kept, "dur": 0})
    if rank.samples and rank.samples.kept:
        rows.append({"phase": "counter", "cat": "", "events": rank.samples.kept, "dur": 0})
    return pa.Table.from_pylist(rows, COUNT)
