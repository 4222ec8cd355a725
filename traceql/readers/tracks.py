"""The tracks of a file: its processes and threads, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from traceql.readers.arguments import int64_column, text_column, whole_numbers
from traceql.readers.tables import TRACK


@dataclass(frozen=True)
class Track:
    """A pid and a tid with their names. Files use any JSON type for these; None if unknown."""

    pid: Any
    tid: Any
    process_name: Any = None
    thread_name: Any = None
    process_labels: Any = None
    process_sort_index: Any = None
    thread_sort_index: Any = None


def track_table(tracks: Sequence[Track]) -> pa.Table:
    """The tracks, numbered from 0 in this order, as the table that a reader delivers."""
    columns = [
        pa.array(range(len(tracks)), pa.int64()),
        text_column([track.pid for track in tracks]),
        text_column([track.tid for track in tracks]),
        text_column([track.process_name for track in tracks]),
        text_column([track.thread_name for track in tracks]),
        text_column([track.process_labels for track in tracks]),
        int64_column(whole_numbers([track.process_sort_index for track in tracks])),
        int64_column(whole_numbers([track.thread_sort_index for track in tracks])),
    ]
    return pa.table(columns, schema=TRACK)
