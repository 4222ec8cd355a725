"""The tables of an export that hold events with a duration, and what is read of each of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from traceql.readers.dialects.nsys.vocabulary import UNRECORDED_GRAPH, Category
from traceql.readers.formats.nsys.event_tables import CUPTI_OVERHEAD, RUNTIME
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.processes import OF_PROCESS, OF_THREAD
from traceql.readers.formats.nsys.rows import Rows
from traceql.readers.formats.nsys.term import Term
from traceql.readers.formats.nsys.terms import (
    ALWAYS,
    NEVER,
    NOTHING,
    both,
    case,
    chosen,
    column,
    column_of,
    constant,
    duration,
    either,
    is_above_zero,
    is_known,
    is_not_before,
    is_one_of,
    is_outside,
    is_unknown,
    joined,
    row_number,
    text,
    within,
)
from traceql.readers.sqlite_pages import ROWID

# Columns of all tables of events with a duration.
START, END = "start", "end"
# What is read of an event. `place` tells tracks of one thread apart: see PLACES.
EVENT = pa.schema(
    [
        ("name_id", pa.int64()),  # in StringIds; NULL if `name` has the name
        ("name", pa.large_string()),
        pa.field("ts", pa.int64(), nullable=False),  # ns since the session began
        pa.field("dur", pa.int64(), nullable=False),
        # globalTid on the host, deviceId on a GPU
        pa.field("global_id", pa.int64(), nullable=False),
        ("stream", pa.int64()),  # NULL on the host
        ("place", pa.int64()),
        ("correlation", pa.int64()),
        ("args", pa.large_string()),
        ("bytes", pa.int64()),
        ("grid_x", pa.int32()),
        ("grid_y", pa.int32()),
        ("grid_z", pa.int32()),
        ("block_x", pa.int32()),
        ("block_y", pa.int32()),
        ("block_z", pa.int32()),
        ("graph_node", pa.int64()),
    ]
)
# Events that do not nest with those of their thread or stream have a track of their own.
PLACES = ("", "synchronization", "ranges", "scheduling", "overhead")
ITSELF, SYNCHRONIZATION, RANGES, SCHEDULING, OVERHEAD = range(len(PLACES))

# NVTX_EVENTS.eventType; nsys calls the second of each Nvtxt, which have the same columns.
START_ENDS, MARKS = (60, 71), (34, 65)
RANGE_TYPES = (59, 70, *START_ENDS)  # pushed and popped, or started and ended
# ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND; copies are named as PyTorch's profiler names them.
_COPIES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MEMORY = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device",
    6: "Managed",
}
_MOST_SIZE = 2**31 - 1  # of a grid or block
_NO_STREAM = 2**32 - 1  # what stands for no stream of a synchronization
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


@dataclass(frozen=True, eq=False)
class Source:
    """A kind of event in one table.

    Attributes:
        table: the table of the export.
        name: the name, or its id in StringIds if `is_id`.
        columns: columns of EVENT, by name, where they are not as usual.
        args: the columns that become arguments.
        where: chooses the rows of this kind.
        odd: the condition for rows of which a value is not loaded.
        needs: the columns without which they cannot be read, beside those that say where it ran.
    """

    table: str
    category: Category
    name: Term
    is_id: bool
    on_gpu: bool
    columns: Mapping[str, Term] = field(default_factory=dict)
    args: Sequence[str] = ()
    where: Term = ALWAYS
    odd: Term = NEVER
    needs: Sequence[str] = (START, END)

    @property
    def relation(self) -> str:
        """The table that is read."""
        return _OFF_CPU if self.category == Category.OFF_CPU else self.table

    def rows(self) -> Rows:
        """Its rows. Those that end before they begin are left out; odd times are refused later."""
        is_forward = is_not_before(END, START)
        return Rows(
            table=self.relation,
            owner=(OF_PROCESS, column("deviceId")) if self.on_gpu else (OF_THREAD,),
            start=START,
            where=self.where,
            kept=is_forward if self.on_gpu else either(is_unknown(END), is_forward),
            dur=duration(START, END),
            odd=self.odd,
        )

    def event(self, export: Export) -> Mapping[str, Term]:
        """The columns of EVENT that are not NULL, but for the arguments, in that order."""
        told = partial(column_of, export, self.table)
        usual = {
            "name_id": self.name if self.is_id else NOTHING,
            "name": NOTHING if self.is_id else self.name,
            "ts": column(START),
            "dur": duration(START, END),
            "global_id": column("deviceId") if self.on_gpu else OF_THREAD,
            "stream": told("streamId") if self.on_gpu else NOTHING,
            "correlation": told("correlationId"),
            "place": constant(ITSELF),
            "graph_node": told("graphNodeId"),
        }
        given = usual | dict(self.columns)
        names = [field.name for field in EVENT if given.get(field.name, NOTHING) is not NOTHING]
        return {name: given[name] for name in names}


def sources(export: Export) -> Iterator[Source]:
    """The kinds of events that an export can hold, of those whose tables it has.

    Raises:
        TraceCorrupt: a table has rows, but not the columns without which they cannot be read.
    """
    for source in (*_on_gpu(export), *_on_host(export)):
        where = ("deviceId", "globalPid") if source.on_gpu else ("globalTid",)
        needs = (*source.needs, *where)
        if export.has(source.table):
            export.require(source.table, *needs)
        if export.has(source.table, *needs):
            yield source


def schedule(export: Export, threads: Collection[int]) -> None:
    """Makes a table of the times in which these threads were on no CPU: until their next row."""
    if not export.has("SCHED_EVENTS", START, "isSchedIn", "globalTid"):
        return
    state = export.column("SCHED_EVENTS", "threadState")
    export.rows(
        f"""
        CREATE TEMP TABLE {_OFF_CPU} AS
        SELECT start, "end", globalTid, threadState
        FROM (
            SELECT
                start,
                LEAD(start) OVER (PARTITION BY globalTid ORDER BY start, {ROWID}) AS "end",
                globalTid,
                {state} AS threadState,
                isSchedIn
            FROM SCHED_EVENTS
            WHERE {OF_THREAD.sql} IN ({", ".join(map(str, threads))})
        )
        WHERE isSchedIn = 0 AND "end" IS NOT NULL
        ORDER BY start
        """
    )


IS_WHOLE_REPLAY = both(
    is_above_zero(START), is_not_before(END, START)
)  # nsys gives others no times
_OFF_CPU = "off_cpu"  # a table beside those of the export


def _on_gpu(export: Export) -> Iterator[Source]:
    yield _kernels(export)
    yield Source(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        Category.GRAPH,
        constant(UNRECORDED_GRAPH),
        is_id=False,
        on_gpu=True,
        args=("contextId", "graphId", "graphExecId"),
        where=IS_WHOLE_REPLAY,
    )
    yield _copies(export)
    yield _sets(export)
    yield _synchronizations(export)


def _kernels(export: Export) -> Source:
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    sizes = {
        f"{what}_{axis}": column(name)
        for what in ("grid", "block")
        for axis in "xyz"
        if export.has(kernels, name := f"{what}{axis.upper()}")
    }
    name = "demangledName" if export.has(kernels, "demangledName") else "shortName"
    return Source(
        kernels,
        Category.KERNEL,
        column_of(export, kernels, name),
        is_id=True,
        on_gpu=True,
        columns={name: within(size, 1, _MOST_SIZE) for name, size in sizes.items()},
        odd=either(*(is_outside(size, 1, _MOST_SIZE) for size in sizes.values())),
        args=(
            "contextId",
            "greenContextId",
            "registersPerThread",
            "staticSharedMemory",
            "dynamicSharedMemory",
            "localMemoryPerThread",
            "launchType",
            "gridId",
            "graphNodeId",
            "graphId",
        ),
    )


def _copies(export: Export) -> Source:
    copies = "CUPTI_ACTIVITY_KIND_MEMCPY"
    told = partial(column_of, export, copies)
    direction = case(told("copyKind"), _COPIES)
    source, target = (case(told(kind), _MEMORY) for kind in ("srcKind", "dstKind"))
    return Source(
        copies,
        Category.MEMCPY,
        joined(
            constant("Memcpy "),
            direction,
            constant(" ("),
            source,
            constant(" -> "),
            target,
            constant(")"),
        ),
        is_id=False,
        on_gpu=True,
        columns={"bytes": told("bytes")},
        args=(
            "contextId",
            "copyKind",
            "srcKind",
            "dstKind",
            "srcDeviceId",
            "dstDeviceId",
            "graphNodeId",
        ),
    )


def _sets(export: Export) -> Source:
    sets = "CUPTI_ACTIVITY_KIND_MEMSET"
    told = partial(column_of, export, sets)
    return Source(
        sets,
        Category.MEMSET,
        joined(constant("Memset ("), case(told("memKind"), _MEMORY), constant(")")),
        is_id=False,
        on_gpu=True,
        columns={"bytes": told("bytes")},
        args=("contextId", "value", "memKind", "graphNodeId"),
    )


def _synchronizations(export: Export) -> Source:
    waits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    told = partial(column_of, export, waits)
    return Source(
        waits,
        Category.SYNC,
        case(told("syncType"), _SYNCS),
        is_id=False,
        on_gpu=True,
        columns={
            "place": constant(SYNCHRONIZATION),
            "stream": within(told("streamId"), -(2**63), _NO_STREAM - 1),
        },
        args=("contextId", "eventId", "eventSyncId"),
    )


def _on_host(export: Export) -> Iterator[Source]:
    for event_class, category in ((0, Category.RUNTIME), (1, Category.DRIVER)):
        yield Source(
            RUNTIME,
            category,
            column_of(export, RUNTIME, "nameId"),
            is_id=True,
            on_gpu=False,
            args=("returnValue",),
            where=is_one_of("eventClass", [event_class]),
            needs=(START, END, "eventClass"),
        )
    yield _ranges(export)
    name = column_of(export, "OSRT_API", "nameId")
    yield Source("OSRT_API", Category.OS, name, is_id=True, on_gpu=False, args=("returnValue",))
    name = column_of(export, "PROFILER_OVERHEAD", "nameId")
    yield Source("PROFILER_OVERHEAD", Category.OVERHEAD, name, is_id=True, on_gpu=False)
    yield Source(
        CUPTI_OVERHEAD,
        Category.OVERHEAD,
        column_of(export, CUPTI_OVERHEAD, "nameId"),
        is_id=True,
        on_gpu=False,
        columns={"correlation": NOTHING, "place": constant(OVERHEAD)},
        args=("correlationId", "overheadType"),
    )
    yield Source(
        "SCHED_EVENTS",
        Category.OFF_CPU,
        constant("off the CPU"),
        is_id=False,
        on_gpu=False,
        columns={"place": constant(SCHEDULING), "correlation": NOTHING},
        args=("threadState",),
        needs=(START, "isSchedIn"),
    )


def _ranges(export: Export) -> Source:
    has_text = export.has("NVTX_EVENTS", "text")
    return Source(
        "NVTX_EVENTS",
        Category.NVTX,
        column_of(export, "NVTX_EVENTS", "textId"),
        is_id=True,
        on_gpu=False,
        columns={
            "name": text("text") if has_text else NOTHING,
            "correlation": NOTHING,
            "place": chosen(is_one_of("eventType", START_ENDS), RANGES, ITSELF),
            "args": row_number(),  # from which traceql.readers.formats.nsys.nvtx makes them
        },
        where=both(is_one_of("eventType", RANGE_TYPES), is_known(END)),
        needs=(START, END, "eventType"),
    )
