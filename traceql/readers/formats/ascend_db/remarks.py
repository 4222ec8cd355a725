"""What the ledger has to say about a database of Ascend's profiler."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from traceql.readers.dialects.ascend.vocabulary import EAGER, Category
from traceql.readers.formats.ascend.common_remarks import (
    calls_missing,
    captured_tasks,
    impossible_sizes,
    owned_parts,
    unknown_tasks,
    waits_of_profiler,
)
from traceql.readers.formats.ascend_db.analysis import Analysis
from traceql.readers.formats.ascend_db.event import without_time
from traceql.readers.formats.ascend_db.host_sources import has_swapped_inputs
from traceql.readers.formats.ascend_db.names import EVENTS, STRINGS
from traceql.readers.formats.ascend_db.own_sums import own_sums
from traceql.readers.formats.ascend_db.points import of_other_allocators
from traceql.readers.formats.ascend_db.profile import CALL_CHAINS, Profile
from traceql.readers.formats.ascend_db.rank_events import RankEvents
from traceql.readers.formats.ascend_db.undescribed import UNDESCRIBED
from traceql.readers.remarks import Remark, left_out

# Tables that are read, beside those with events and samples.
_READ = frozenset(
    {
        "STRING_IDS",
        "META_DATA",
        "RANK_DEVICE_MAP",
        "NPU_INFO",
        "HOST_INFO",
        "SESSION_TIME_INFO",
        "CONNECTION_IDS",
        "MEMCPY_INFO",
        "STEP_TIME",
        "OVERLAP_ANALYSIS",
        "OP_MEMORY",
        CALL_CHAINS,
    }
)
# What MindStudio Insight leaves in a database that it opened.
_OF_VIEWER = frozenset({"status_info", "connectionCats", "sqlite_sequence"})
_LISTED = 20  # tables


def remarks(profile: Profile, found: RankEvents, analysis: Analysis) -> Iterator[Remark]:
    """Statements about the rank."""
    yield from _odd_rows(profile, found)
    yield from _tasks(profile, found)
    yield from own_sums(found, analysis)
    yield from _odd_texts(profile)
    if has_swapped_inputs(profile):
        yield Remark(
            "shapes of operators",
            1,
            1,
            None,
            "columns inputShapes and inputDtypes of table PYTORCH_API hold each other's texts, as "
            "torch_npu of early 2025 wrote them; they are read the other way round",
        )
    if others := of_other_allocators(profile):
        yield Remark(
            "allocations of other allocators",
            0,
            others,
            None,
            "rows loaded; rows of table OP_MEMORY without a stream, which have totals of their own "
            "(the engine of graphs). Table memory is of torch_npu's allocator",
        )
    yield from _tables_not_loaded(profile, found)


def _odd_rows(profile: Profile, found: RankEvents) -> Iterator[Remark]:
    """Rows that no table can hold, and values that count as NULL."""
    for source in found.sources:
        yield from left_out(
            f"rows of {source.table} without a time",
            without_time(profile, source),
            profile.count(source.table),
            "rows whose start or end is no time after 1970, that end before they start, or whose "
            "task is not in the file",
        )
    for table, columns in profile.asked.items():
        odd = {name: n for name in sorted(columns) if (n := _not_whole(profile, table, name))}
        if odd:
            listed = ", ".join(f"{name} {n}" for name, n in odd.items())
            yield Remark(
                f"values of {table}",
                sum(odd.values()),
                profile.count(table),
                False,
                f"values that are no integers and count as unknown; rows. They are in: {listed}",
            )


def _odd_texts(profile: Profile) -> Iterator[Remark]:
    """Names that are not what the file has, or that it does not have."""
    texts = profile.count(STRINGS)
    if odd := profile.values_that_are_no_texts():
        yield Remark(
            f"values of {STRINGS}",
            odd,
            texts,
            False,
            "values that are no texts, so that what they name has no name; all texts of names",
        )
    if altered := profile.altered_texts():
        yield Remark(
            "texts that are no UTF-8",
            altered,
            texts,
            None,
            f"texts of table {STRINGS} in which a replacement character stands for each odd byte; "
            "all texts",
        )


def _not_whole(profile: Profile, table: str, column: str) -> int:
    return int(
        profile.value(
            f"SELECT COUNT(*) FROM {table} WHERE typeof(\"{column}\") NOT IN ('integer', 'null')"
        )
    )


def _types_of_undescribed(profile: Profile) -> Counter[str]:
    """The types of the tasks that last and that no other table describes, with their numbers."""
    if not profile.has("TASK", "startNs", "endNs", "taskType"):
        return Counter()
    conditions = ["endNs > startNs"]
    for table in ("COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO"):
        if profile.has(table, "globalTaskId") and profile.has("TASK", "globalTaskId"):
            conditions.append(f"globalTaskId NOT IN (SELECT globalTaskId FROM {table})")
    kind = profile.text("TASK", "taskType")
    return Counter(
        dict(
            profile.rows(
                f"SELECT COALESCE({kind}, ''), COUNT(*) FROM TASK "
                f"WHERE {' AND '.join(conditions)} GROUP BY 1"
            )
        )
    )


def _tasks(profile: Profile, found: RankEvents) -> Iterator[Remark]:
    """Of the device's own tasks, how many are in table kernel, and which are not the program's."""
    tasks = profile.count("TASK")
    counted = int(found.of(Category.KERNEL, Category.MEMCPY).sum())
    yield Remark(
        "tasks of the device",
        counted,
        tasks,
        None,
        "compute tasks and copies, which are in table kernel; all rows of table TASK. The rest are "
        "waits, records, parts of communication, whose operations count as a whole, and rows that "
        "enclose others",
    )
    if found.undescribed:
        yield Remark(
            "compute tasks without a description",
            found.undescribed,
            int(found.of(Category.KERNEL).sum()),
            False,
            "rows of table TASK that compute by their type, but are not in COMPUTE_TASK_INFO; all "
            "compute tasks. They are in table kernel by the name of their type, because their own "
            "is not in the file; analyse the recording again",
        )
    if profile.has("MEMCPY_INFO", "size"):
        odd = "SELECT COUNT(*) FROM MEMCPY_INFO WHERE typeof(size) = 'integer' AND size < 0"
        yield from impossible_sizes(profile.value(odd), profile.count("MEMCPY_INFO"))
    yield from unknown_tasks(_types_of_undescribed(profile), tasks)
    yield from _devices(profile)
    yield from _of_graphs(profile, counted)
    yield from _waits_of_profiler(found, tasks)
    yield from _calls_missing(profile, found)
    yield from _descriptions(profile)


def _devices(profile: Profile) -> Iterator[Remark]:
    if not profile.has("TASK", "deviceId"):
        return
    devices = profile.value("SELECT COUNT(DISTINCT deviceId) FROM TASK")
    if devices > 1:
        yield Remark(
            "devices in the file",
            devices,
            devices,
            None,
            "devices whose tasks are in this one file, which counts as one rank",
        )


def _of_graphs(profile: Profile, counted: int) -> Iterator[Remark]:
    """Compute tasks of captured graphs, of all that are counted."""
    if not profile.has("TASK", "modelId"):
        return
    computes = f"rowid IN (SELECT task_row FROM {UNDESCRIBED})"
    if profile.has("COMPUTE_TASK_INFO", "globalTaskId") and profile.has("TASK", "globalTaskId"):
        computes += " OR globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)"
    inside = profile.value(
        "SELECT COUNT(*) FROM TASK WHERE typeof(modelId) = 'integer' AND modelId <> ? "
        f"AND ({computes})",
        [EAGER],
    )
    yield from captured_tasks(inside, counted, copies="")


def _waits_of_profiler(found: RankEvents, tasks: int) -> Iterator[Remark]:
    names = found.name.take(np.flatnonzero(found.of(Category.EVENT))).to_pylist()
    own = sum(str(name).startswith(("MEM_WAIT", "CAPTURE_WAIT")) for name in names)
    yield from waits_of_profiler(own, tasks)


def _calls_missing(profile: Profile, found: RankEvents) -> Iterator[Remark]:
    if found.of(Category.KERNEL).any() and not profile.has_rows("CANN_API"):
        yield calls_missing()


def _descriptions(profile: Profile) -> Iterator[Remark]:
    """Rows that describe tasks which are not in the file."""
    if profile.has("COMPUTE_TASK_INFO", "globalTaskId"):
        described = profile.count("COMPUTE_TASK_INFO")
        known = 0
        if profile.has("TASK", "globalTaskId"):
            known = profile.value(
                "SELECT COUNT(*) FROM COMPUTE_TASK_INFO "
                "WHERE globalTaskId IN (SELECT globalTaskId FROM TASK)"
            )
        if known < described:
            yield Remark(
                "compute tasks without a task",
                described - known,
                described,
                False,
                "descriptions of compute tasks whose time is not in table TASK; all descriptions",
            )
    yield from _parts(profile)


def _parts(profile: Profile) -> Iterator[Remark]:
    """Whether operations of communication have parts, and all parts an operation."""
    parts = profile.count("COMMUNICATION_TASK_INFO")
    if not parts and (operations := profile.count("COMMUNICATION_OP")):
        yield Remark(
            "parts of communication",
            0,
            0,
            None,
            f"the profile has no parts of its {operations:,} operations of communication (table "
            "COMMUNICATION_TASK_INFO), so that it is unknown how long they waited, and for whom",
        )
    if parts and profile.has("COMMUNICATION_TASK_INFO", "opId"):
        owned = 0
        if profile.has("COMMUNICATION_OP", "opId"):
            owned = profile.value(
                "SELECT COUNT(*) FROM COMMUNICATION_TASK_INFO "
                "WHERE opId IN (SELECT opId FROM COMMUNICATION_OP)"
            )
        yield owned_parts(owned, parts)


def _tables_not_loaded(profile: Profile, found: RankEvents) -> Iterator[Remark]:
    read = _READ | _OF_VIEWER | EVENTS | found.samples.tables
    others = {
        table: rows
        for table in sorted(profile.tables())
        if table not in read and not table.startswith(("ENUM_", "sqlite_"))
        if (rows := profile.count(table))
    }
    for table, rows in list(others.items())[:_LISTED]:
        yield Remark(
            f"table {table[:60]}", 0, rows, None, "rows loaded; rows in the file (not loaded)"
        )
