"""The contract of readers: the tables that each of them delivers, column by column.

A reader turns one file, or the part of one rank in it, into these tables. Everything after it (ids,
kernels, steps, gaps) is SQL and the same for every reader. Every table has to be there with exactly
its schema; a reader delivers `schema.empty_table()` for what its format does not have.

Units: times and durations are integers in ns, sizes are bytes. `ts` counts from the file's own
zero; loading moves it to the run's time base. Columns may be NULL only if their comment says so.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

JSON = pa.json_(pa.large_string())
NAME = pa.dictionary(pa.int32(), pa.large_string())

# One row per event with a duration, in the order of `index`. Nothing may be left out: the ledger
# compares the rows with `count`.
SLICE = pa.schema(
    [
        ("index", pa.int64()),  # 0, 1, 2, ... in this order; slice.id is derived from it
        ("cat", NAME),  # category, a word of the dialect; NULL if it has none
        ("name", NAME),  # as in the file; NULL if it has none
        ("ts", pa.int64()),  # start, ns in the file's own time
        ("dur", pa.int64()),  # duration, ns, as in the file, even if negative
        ("pid", pa.int64()),  # NULL if the file has no integer there; `track` has the text
        ("tid", pa.int64()),  # NULL like pid
        ("track", pa.int64()),  # row of the track table
        ("parent", pa.int64()),  # index of the enclosing slice; NULL at the top
        ("depth", pa.int64()),  # number of enclosing slices
        ("external_id", pa.int64()),  # joins an operator and what it launched; NULL if unknown
        ("correlation", pa.int64()),  # joins a launch call and its activity; NULL if unknown
        ("args", JSON),  # all arguments as in the file, one object; NULL if there are none
    ]
)
# One row per slice that is a GPU activity (kernel, copy or memset): where it ran. Every column but
# `index` may be NULL if the file does not tell.
ACTIVITY = pa.schema(
    [
        ("index", pa.int64()),  # index of the slice
        ("device", pa.int64()),  # device number on its host
        ("stream", pa.int64()),  # stream number on the device
        ("bytes", pa.int64()),  # bytes copied or set
        ("grid", pa.list_(pa.int32())),  # blocks in x, y, z
        ("block", pa.list_(pa.int32())),  # threads in x, y, z
        ("graph_node_id", pa.int64()),  # node of the CUDA graph that contains the kernel
    ]
)
# One row per arrow between two slices, such as from a launch call to its kernel. No NULLs.
FLOW = pa.schema(
    [
        ("slice_out", pa.int64()),  # index of the slice where the arrow begins
        ("slice_in", pa.int64()),  # index of the slice where it ends
    ]
)
# One row per event without a duration, such as an allocator event. Columns are those of SLICE.
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
# One row per sample of a counter, such as a clock or a GPU metric. No NULLs but where the comment
# says so.
COUNTER = pa.schema(
    [
        ("name", NAME),  # what was measured, as in the file
        ("unit", NAME),  # unit of the value; NULL if the file does not tell
        ("ts", pa.int64()),  # time of the sample, ns in the file's own time
        ("value", pa.float64()),
        ("track", pa.int64()),  # row of the track table
    ]
)
# One row per process and thread, or device and stream. pid and tid are text because files also use
# words for them. Every column but `track` may be NULL.
TRACK = pa.schema(
    [
        ("track", pa.int64()),  # 0, 1, 2, ... in this order
        ("pid", pa.large_string()),
        ("tid", pa.large_string()),
        ("process_name", pa.large_string()),
        ("thread_name", pa.large_string()),
        ("process_labels", pa.large_string()),
        ("process_sort_index", pa.int64()),  # place among the processes in a viewer
        ("thread_sort_index", pa.int64()),  # place among the threads of the process
    ]
)
# One row per kind of event and category: what is in the file. The ledger compares these numbers
# with the tables above, so a reader counts them by another way than the one that fills the tables.
# What it cannot count so is NULL, and the ledger calls it unknown.
COUNT = pa.schema(
    [
        # "slice" for rows of SLICE; "i", "I", "R" or "n" for rows of INSTANT; "counter" for rows of
        # COUNTER; anything else for events that no table holds.
        ("phase", pa.large_string()),
        ("cat", pa.large_string()),  # category of slices, "" if they have none; else ""
        ("events", pa.int64()),  # may be NULL
        ("dur", pa.int64()),  # summed duration of slices, ns, may be NULL; else 0
    ]
)
# One row per statement that the reader makes about its own work; all of them go into the ledger.
REMARK = pa.schema(
    [
        ("check_name", pa.large_string()),  # what was checked
        ("value", pa.int64()),  # what was found; may be NULL
        ("total", pa.int64()),  # out of how much; may be NULL
        ("ok", pa.bool_()),  # false fails the ledger; NULL for a remark that proves nothing
        ("note", pa.large_string()),  # what value and total are
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "slice": SLICE,
    "activity": ACTIVITY,
    "flow": FLOW,
    "instant": INSTANT,
    "counter": COUNTER,
    "track": TRACK,
    "count": COUNT,
    "load_check": REMARK,
}


@dataclass(frozen=True)
class TraceTables:
    """What a reader delivers for one file, or for one rank of a file that holds several.

    Attributes:
        tables: a table for each name in `SCHEMAS`.
        metadata: what the file says about itself, as JSON values. The dialect reads the rank, the
            clock and the devices from it (traceql.readers.dialects.facts).
        continues: whether the next tables that the reader yields are of the same rank. So a large
            file need not be in memory at once; indices go on from one set of tables to the next.
        dialect: the dialect of this file, where files of one format have several; None for that
            of the reader.
    """

    tables: Mapping[str, pa.Table]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    continues: bool = False
    dialect: str | None = None


class Remark(NamedTuple):
    """One row of the table `REMARK`, which explains the columns."""

    check_name: str
    value: int
    total: int
    ok: bool | None
    note: str


def left_out(check_name: str, rows: int, total: int, odd: str) -> Iterator[Remark]:
    """Rows without times that can be, such as those that end before they begin; else nothing.

    Args:
        odd: which rows they are.
    """
    if rows:
        yield Remark(check_name, rows, total, False, f"{odd}, which are left out; all of this kind")


def remark_table(remarks: Iterable[Remark]) -> pa.Table:
    """The remarks as the table that a reader delivers."""
    return pa.Table.from_pylist([remark._asdict() for remark in remarks], REMARK)
