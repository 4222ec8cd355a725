"""Events of an export without a duration: marks, open ranges, CUDA events, memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from traceql.readers.dialects.nsys.vocabulary import Category
from traceql.readers.formats.nsys.blocks import RankRows
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.processes import OF_PROCESS, OF_THREAD
from traceql.readers.formats.nsys.rows import Rows
from traceql.readers.formats.nsys.sources import END, MARKS, RANGE_TYPES, START
from traceql.readers.formats.nsys.term import Term
from traceql.readers.formats.nsys.terms import (
    ALWAYS,
    both,
    column,
    either,
    is_above_zero,
    is_one_of,
    is_unknown,
)
from traceql.readers.formats.nsys.windows import Window

POINT = pa.schema(
    [
        ("name_id", pa.int64()),
        ("name", pa.large_string()),
        pa.field("ts", pa.int64(), nullable=False),
        # globalTid on the host, deviceId on a GPU
        pa.field("global_id", pa.int64(), nullable=False),
        ("stream", pa.int64()),  # NULL on the host, and for all streams of a device
        ("args", pa.large_string()),
    ]
)
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"


@dataclass(frozen=True, eq=False)
class Points:
    """A kind of event without a duration: its category, its rows, and the SQL of what is read."""

    category: Category
    table: str
    on_gpu: bool
    start: str
    selected: str
    where: Term = ALWAYS

    def rows(self) -> Rows:
        owner = (OF_PROCESS, column("deviceId")) if self.on_gpu else (OF_THREAD,)
        return Rows(self.table, owner, self.start, self.where)

    def found(self, export: Export, rows: RankRows, window: Window) -> pa.Table:
        """Those of a rank in a window, as the table POINT."""
        if (condition := rows.condition(window)) is None:
            return POINT.empty_table()
        return export.table(f"SELECT {self.selected} FROM {self.table} WHERE {condition}", POINT)


def points(export: Export) -> Iterator[Points]:
    """The kinds of events without a duration that an export has."""
    if export.has("NVTX_EVENTS", "start", "end", "eventType", "globalTid"):
        text, by_id = (export.column("NVTX_EVENTS", name) for name in ("text", "textId"))
        yield Points(
            Category.NVTX,
            "NVTX_EVENTS",
            False,
            START,
            f"{by_id}, {text}, start, {OF_THREAD.sql}, NULL, "
            f"CASE WHEN eventType NOT IN {MARKS} THEN '{{\"open\": true}}' END",
            either(
                is_one_of("eventType", MARKS),
                both(is_one_of("eventType", RANGE_TYPES), is_unknown(END)),
            ),
        )
    if export.has(_EVENTS, "timestamp", "globalPid", "deviceId", "streamId"):
        yield Points(
            Category.EVENT,
            _EVENTS,
            True,
            "timestamp",
            "NULL, 'CUDA event', timestamp, deviceId, streamId, "
            f"json_patch('{{}}', json_object('eventId', {export.column(_EVENTS, 'eventId')}))",
            is_above_zero("timestamp"),
        )
    if export.has(_MEMORY, "start", "globalPid", "deviceId", "bytes", "memoryOperationType"):
        told = ("bytes", "address", "memKind", "memoryOperationType", "streamId", "correlationId")
        pairs = ", ".join(f"'{name}', {export.column(_MEMORY, name)}" for name in told)
        yield Points(
            Category.MEMORY,
            _MEMORY,
            True,
            START,
            "NULL, CASE memoryOperationType WHEN 0 THEN 'CUDA allocation' WHEN 1 THEN 'CUDA free' "
            "ELSE 'memory operation ' || memoryOperationType END, start, deviceId, NULL, "
            f"json_patch('{{}}', json_object({pairs}))",
        )
