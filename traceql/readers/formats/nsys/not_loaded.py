"""What of an export no table of the database holds: other tables, views, other NVTX events."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from traceql.readers.formats.nsys.event_tables import EVENT_TABLES
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.gpu_metrics import METRICS, NEEDED
from traceql.readers.formats.nsys.points import points
from traceql.readers.formats.nsys.processes import threads_and_kinds
from traceql.readers.formats.nsys.sources import MARKS, RANGE_TYPES
from traceql.readers.remarks import Remark
from traceql.readers.shown import shown
from traceql.util.sql_text import identifier

_NVTX = "NVTX_EVENTS"
_NAMES = (33, 39, 75, 76)  # NVTX_EVENTS.eventType of rows that name something, and of their ends
# Tables of events have a time, or a name that says so. Others describe the job.
_TIMES = ("start", "timestamp", "rawTimestamp")
_OF_EVENTS = ("EVENTS", "CALLCHAINS", "METRIC", "NIC_ID_MAP")  # ends of names
_ABOUT = ("ENUM_", "TARGET_INFO_", "META_DATA_", "DIAGNOSTIC_EVENT", "sqlite_")  # beginnings
_POINTS = ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUDA_GPU_MEMORY_USAGE_EVENTS", METRICS)
_ROWS = "rows loaded; rows in the file (not loaded)"


def not_loaded(export: Export) -> Iterator[Remark]:
    """A remark for each table with such rows, one for views, and one for kinds of NVTX events."""
    for table in sorted(set(export.tables()) - set(EVENT_TABLES)):
        if _has_events(export, table) and (rows := _count(export, table)):
            yield Remark(f"table {shown(table)}", 0, rows, None, _ROWS)
    yield from _without_times(export)
    yield from _views(sorted(export.views() - set(EVENT_TABLES)))
    yield from _nvtx_of_other_types(export)


def _has_events(export: Export, table: str) -> bool:
    if table.startswith(_ABOUT):
        return False
    return table.endswith(_OF_EVENTS) or any(export.has(table, time) for time in _TIMES)


def _count(export: Export, table: str, where: str = "TRUE") -> int:
    return int(export.value(f"SELECT COUNT(*) FROM {identifier(table)} WHERE {where}"))


def _without_times(export: Export) -> Iterator[Remark]:
    """Tables of events without a duration, of which rows, or all, lack what they need."""
    loaded = {kind.table: kind.where.sql for kind in points(export)}
    if export.has(METRICS, *NEEDED):
        loaded[METRICS] = "TRUE"
    for table in _POINTS:
        if export.has(table):
            total = _count(export, table)
            kept = _count(export, table, loaded[table]) if table in loaded else 0
            if kept < total:
                note = f"rows loaded; rows of table {table}. The others have no time or no place"
                yield Remark(f"table {table}", kept, total, None, note)


def _views(names: Sequence[str]) -> Iterator[Remark]:
    if names:
        listed = ", ".join(map(shown, names))
        note = f"views loaded; views in the file, which show what is in its tables: {listed}"
        yield Remark("views", 0, len(names), None, note)


def _nvtx_of_other_types(export: Export) -> Iterator[Remark]:
    """Rows of NVTX that are neither ranges nor marks, and name nothing."""
    if not export.has(_NVTX, "globalTid", "eventType"):
        return
    known = {*RANGE_TYPES, *MARKS, *_NAMES}
    found: Counter[Any] = Counter()
    for (_, kind), rows in threads_and_kinds(export, _NVTX).items():
        if kind not in known:
            found[kind] += rows
    if found:
        listed = ", ".join(f"{shown(kind)}: {found[kind]:,}" for kind in sorted(found, key=_order))
        yield Remark(
            "NVTX events of other types",
            0,
            found.total(),
            None,
            f"rows loaded; rows of table {_NVTX} that are neither ranges nor marks, by type: "
            f"{listed}",
        )


def _order(value: Any) -> tuple[int, Any]:
    """The order that SQLite has for values of several types."""
    kinds = (type(None), int | float, str, bytes)
    return next(place for place, kind in enumerate(kinds) if isinstance(value, kind)), value
