"""What a reader hands over: the seam between trace formats and the database.

Whatever reads a trace yields these tables; all that follows (ids, kernels, steps, gaps) is SQL and
the same for every reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

JSON = pa.json_(pa.large_string())
NAME = pa.dictionary(pa.int32(), pa.large_string())

# `index` counts the file's complete events from 0, in the file's order. `ts` is the file's own
# time in ns. pid and tid are NULL where the file has no integer there; `track` has the text.
SLICE = pa.schema(
    [
        ("index", pa.int64()),
        ("cat", NAME),
        ("name", NAME),
        ("ts", pa.int64()),
        ("dur", pa.int64()),
        ("pid", pa.int64()),
        ("tid", pa.int64()),
        ("track", pa.int64()),
        ("parent", pa.int64()),  # index of the enclosing event, NULL at the top
        ("depth", pa.int64()),
        ("external_id", pa.int64()),
        ("correlation", pa.int64()),
        ("args", JSON),
    ]
)
# Where events of categories kernel, gpu_memcpy and gpu_memset ran, by `index`.
ACTIVITY = pa.schema(
    [
        ("index", pa.int64()),
        ("device", pa.int64()),
        ("stream", pa.int64()),
        ("bytes", pa.int64()),
        ("grid", pa.list_(pa.int32())),
        ("block", pa.list_(pa.int32())),
        ("graph_node_id", pa.int64()),
    ]
)
# Arrows between slices, by `index`.
FLOW = pa.schema([("slice_out", pa.int64()), ("slice_in", pa.int64())])
# Events without a duration, such as allocator events.
INSTANT = pa.schema(
    [
        ("cat", NAME),
        ("name", NAME),
        ("ts", pa.int64()),
        ("pid", pa.int64()),
        ("tid", pa.int64()),
        ("track", pa.int64()),
        ("args", JSON),
    ]
)
# Processes and threads as the file names them: (pid, tid) as text, whatever their type.
TRACK = pa.schema(
    [
        ("track", pa.int64()),
        ("pid", pa.large_string()),
        ("tid", pa.large_string()),
        ("process_name", pa.large_string()),
        ("thread_name", pa.large_string()),
        ("process_labels", pa.large_string()),
        ("process_sort_index", pa.int64()),
        ("thread_sort_index", pa.int64()),
    ]
)
# Counted in the file before anything else saw it: one row per kind of event and category.
COUNT = pa.schema(
    [
        ("phase", pa.large_string()),  # slice, instant, flow, metadata or another phase letter
        ("cat", pa.large_string()),
        ("events", pa.int64()),
        ("dur", pa.int64()),
    ]
)
# What the reader has to say of its own work: ok is NULL for a remark that proves nothing.
REMARK = pa.schema(
    [
        ("check", pa.large_string()),
        ("value", pa.int64()),
        ("total", pa.int64()),
        ("ok", pa.bool_()),
        ("note", pa.large_string()),
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "slice": SLICE,
    "activity": ACTIVITY,
    "flow": FLOW,
    "instant": INSTANT,
    "track": TRACK,
    "count": COUNT,
    "remark": REMARK,
}


@dataclass(frozen=True)
class TraceTables:
    """One trace file, read: a table for each of `SCHEMAS` and the file's metadata."""

    tables: Mapping[str, pa.Table]
    metadata: Mapping[str, Any] = field(default_factory=dict)
