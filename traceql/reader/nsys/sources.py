"""The tables of an export that hold events with a duration, and how to read each of them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from traceql.dialect.nsys.vocabulary import UNRECORDED_GRAPH, Category
from traceql.reader.json_objects import json_objects
from traceql.reader.nsys.blocks import RankRows, Rows
from traceql.reader.nsys.event_tables import CUPTI_OVERHEAD, RUNTIME
from traceql.reader.nsys.export import Export
from traceql.reader.nsys.processes import OF_PROCESS, OF_THREAD
from traceql.reader.nsys.windows import Window

START = "start"  # the column of the start, in all tables of events with a duration
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
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


@dataclass(frozen=True, eq=False)
class Source:
    """A kind of event in one table.

    Attributes:
        table: the table of the export.
        name: SQL of the name, or of its id in StringIds if `is_id`.
        columns: SQL of columns of EVENT, by name, where it is not as usual.
        args: the columns that become arguments.
        where: SQL that chooses the rows of this kind.
        odd: SQL of the condition for rows of which a value is not loaded.
        needs: the columns without which they cannot be read, beside those that say where it ran.
    """

    table: str
    category: Category
    name: str
    is_id: bool
    on_gpu: bool
    columns: dict[str, str] = field(default_factory=dict)
    args: Sequence[str] = ()
    where: str = "TRUE"
    odd: str = "FALSE"
    needs: Sequence[str] = ("start", "end")

    @property
    def relation(self) -> str:
        """The table that is read."""
        return _OFF_CPU if self.category == Category.OFF_CPU else self.table

    def rows(self) -> Rows:
        """Its rows. Those that end before they begin are left out; odd times are refused later."""
        is_forward = "\"end\" >= start OR typeof(start) <> 'integer'"
        if not self.on_gpu:
            is_forward = f'"end" IS NULL OR {is_forward}'
        return Rows(
            table=self.relation,
            owner=(OF_PROCESS, "deviceId") if self.on_gpu else (OF_THREAD,),
            start=START,
            where=self.where,
            kept=is_forward,
            dur=self.columns.get("dur", _DURATION),
            odd=self.odd,
        )


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


def events(export: Export, source: Source, rows: RankRows, window: Window) -> pa.Table:
    """The events of one kind that belong to a rank and begin in a window, as the table EVENT."""
    condition = rows.condition(window)
    if condition is None:
        return EVENT.empty_table()
    usual = {
        "name_id": source.name if source.is_id else _NULL,
        "name": _NULL if source.is_id else source.name,
        "ts": START,
        "dur": _DURATION,
        "global_id": "deviceId" if source.on_gpu else OF_THREAD,
        "stream": export.column(source.table, "streamId") if source.on_gpu else _NULL,
        "correlation": export.column(source.table, "correlationId"),
        "place": str(ITSELF),
        "graph_node": export.column(source.table, "graphNodeId"),
    }
    given = {name: sql for name, sql in (usual | source.columns).items() if sql != _NULL}
    args = [name for name in source.args if export.has(source.table, name)]
    if not export.are_integers(source.table, tuple(args)):
        given["args"], args = _json(args), []
    fields = [field for field in EVENT if field.name in given]
    selected = [given[field.name] for field in fields] + [f'"{name}"' for name in args]
    found = export.table(
        f"SELECT {', '.join(selected)} FROM {source.relation} WHERE {condition}",
        pa.schema([*fields, *((f"{_ARGUMENT}{name}", pa.int64()) for name in args)]),
    )
    known = {field.name: found[field.name] for field in fields}
    if args:
        of_args = {name: found[f"{_ARGUMENT}{name}"] for name in args}
        known["args"] = json_objects(of_args, found.num_rows)
    columns = [known.get(field.name, pa.nulls(found.num_rows, field.type)) for field in EVENT]
    return pa.table(columns, schema=EVENT)


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
                LEAD(start) OVER (PARTITION BY globalTid ORDER BY start, rowid) AS "end",
                globalTid,
                {state} AS threadState,
                isSchedIn
            FROM SCHED_EVENTS
            WHERE {OF_THREAD} IN ({", ".join(map(str, threads))})
        )
        WHERE isSchedIn = 0 AND "end" IS NOT NULL
        ORDER BY start
        """
    )


_TIMES = ("start", "end")
_NULL = "NULL"
_ARGUMENT = "argument "  # begins the names of columns that become arguments
# An event without an end has no duration. Text stays text, which is refused; else it would be 0.
_DURATION = """
    CASE WHEN typeof("end") IN ('text', 'blob') THEN "end" ELSE COALESCE("end", start) - start END
"""
IS_WHOLE_REPLAY = 'start > 0 AND "end" >= start'  # others are incomplete: nsys gives no times
_OFF_CPU = "off_cpu"  # a table beside those of the export


def _json(columns: Sequence[str]) -> str:
    """SQL of the columns as one JSON object, without those that are NULL."""
    pairs = ", ".join(f"'{name}', \"{name}\"" for name in columns)
    return f"json_patch('{{}}', json_object({pairs}))"


def _on_gpu(export: Export) -> Iterator[Source]:
    yield _kernels(export)
    yield Source(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        Category.GRAPH,
        f"'{UNRECORDED_GRAPH}'",
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
        f"{what}_{axis}": export.column(kernels, f"{what}{axis.upper()}")
        for what in ("grid", "block")
        for axis in "xyz"
    }
    name = export.column(
        kernels, "demangledName" if export.has(kernels, "demangledName") else "shortName"
    )
    return Source(
        kernels,
        Category.KERNEL,
        name,
        is_id=True,
        on_gpu=True,
        columns={
            name: sql if sql == _NULL else f"CASE WHEN {_fits(sql)} THEN {sql} END"
            for name, sql in sizes.items()
        },
        odd=" OR ".join(f"NOT {_fits(sql)}" for sql in sizes.values() if sql != _NULL) or "FALSE",
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


def _fits(column: str) -> str:
    """The condition for a possible size of a grid or block; what is no number is refused later."""
    return f"(typeof({column}) <> 'integer' OR {column} BETWEEN 1 AND {2**31 - 1})"


def _copies(export: Export) -> Source:
    copies = "CUPTI_ACTIVITY_KIND_MEMCPY"
    direction = _case(export.column(copies, "copyKind"), _COPIES)
    source, target = (
        _case(export.column(copies, kind), _MEMORY) for kind in ("srcKind", "dstKind")
    )
    return Source(
        copies,
        Category.MEMCPY,
        f"'Memcpy ' || {direction} || ' (' || {source} || ' -> ' || {target} || ')'",
        is_id=False,
        on_gpu=True,
        columns={"bytes": export.column(copies, "bytes")},
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
    return Source(
        sets,
        Category.MEMSET,
        f"'Memset (' || {_case(export.column(sets, 'memKind'), _MEMORY)} || ')'",
        is_id=False,
        on_gpu=True,
        columns={"bytes": export.column(sets, "bytes")},
        args=("contextId", "value", "memKind", "graphNodeId"),
    )


def _synchronizations(export: Export) -> Source:
    waits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    stream = export.column(waits, "streamId")
    return Source(
        waits,
        Category.SYNC,
        _case(export.column(waits, "syncType"), _SYNCS),
        is_id=False,
        on_gpu=True,
        columns={
            "place": str(SYNCHRONIZATION),
            # The largest number of 32 bits stands for no stream.
            "stream": f"CASE WHEN {stream} < 4294967295 THEN {stream} END",
        },
        args=("contextId", "eventId", "eventSyncId"),
    )


def _on_host(export: Export) -> Iterator[Source]:
    for event_class, category in ((0, Category.RUNTIME), (1, Category.DRIVER)):
        yield Source(
            RUNTIME,
            category,
            export.column(RUNTIME, "nameId"),
            is_id=True,
            on_gpu=False,
            args=("returnValue",),
            where=f"eventClass = {event_class}",
            needs=(*_TIMES, "eventClass"),
        )
    yield _ranges(export)
    name = export.column("OSRT_API", "nameId")
    yield Source("OSRT_API", Category.OS, name, is_id=True, on_gpu=False, args=("returnValue",))
    name = export.column("PROFILER_OVERHEAD", "nameId")
    yield Source("PROFILER_OVERHEAD", Category.OVERHEAD, name, is_id=True, on_gpu=False)
    yield Source(
        CUPTI_OVERHEAD,
        Category.OVERHEAD,
        export.column(CUPTI_OVERHEAD, "nameId"),
        is_id=True,
        on_gpu=False,
        columns={"correlation": _NULL, "place": str(OVERHEAD)},
        args=("correlationId", "overheadType"),
    )
    yield Source(
        "SCHED_EVENTS",
        Category.OFF_CPU,
        "'off the CPU'",
        is_id=False,
        on_gpu=False,
        columns={
            "place": str(SCHEDULING),
            "correlation": "NULL",
        },
        args=("threadState",),
        needs=("start", "isSchedIn"),
    )


def _ranges(export: Export) -> Source:
    return Source(
        "NVTX_EVENTS",
        Category.NVTX,
        export.column("NVTX_EVENTS", "textId"),
        is_id=True,
        on_gpu=False,
        columns={
            "name": _text(export.column("NVTX_EVENTS", "text")),
            "correlation": "NULL",
            "place": f"CASE WHEN eventType IN {START_ENDS} THEN {RANGES} ELSE {ITSELF} END",
            "args": "CAST(rowid AS TEXT)",  # from which traceql.reader.nsys.nvtx makes them
        },
        where=f'eventType IN {RANGE_TYPES} AND "end" IS NOT NULL',
        needs=(*_TIMES, "eventType"),
    )


def _text(column: str) -> str:
    """SQL of a text that is NULL where bytes are in its place."""
    return column if column == _NULL else f"CASE WHEN typeof({column}) <> 'blob' THEN {column} END"


def _case(column: str, texts: dict[int, str]) -> str:
    """SQL of the text for a number; the number itself where none is known."""
    cases = " ".join(f"WHEN {number} THEN '{text}'" for number, text in texts.items())
    return f"CASE {column} {cases} ELSE COALESCE(CAST({column} AS TEXT), 'unknown') END"
