"""The tables of a rocpd database that hold events with a duration, and how to read each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from traceql.readers.dialects.rocprof.vocabulary import (
    COPIES,
    GRAPH_LAUNCH,
    PROCESS_RANGES,
    Argument,
    Category,
)
from traceql.readers.formats.rocprof.recording import ITSELF, MEMORY, RANGES, Agent
from traceql.readers.sqlite_file import SqliteFile

# Text stays text, which is refused; else it would count as 0.
DURATION = """
    CASE WHEN typeof(source."end") IN ('text', 'blob') THEN source."end"
    ELSE source."end" - source.start END
"""


@dataclass(frozen=True)
class Source:
    """A kind of event in one table.

    Attributes:
        table: its name, quoted.
        joins: SQL of what else is read.
        columns: SQL of columns of EVENT, by name; others are NULL.
        on_gpu: whether it ran on a GPU.
    """

    table: str
    joins: str
    columns: dict[str, str]
    on_gpu: bool

    @property
    def relation(self) -> str:
        return f"{self.table} AS source {self.joins}"

    @property
    def number(self) -> str:
        """SQL of the GPU or the thread of an event."""
        return self.columns["device" if self.on_gpu else "thread"]


class Tables:
    """The tables of one suffix, with their columns as SQL.

    Args:
        agents: the processors, by number.
    """

    def __init__(self, database: SqliteFile, suffix: str, agents: Mapping[int, Agent]) -> None:
        self._database, self._suffix, self._agents = database, suffix, agents

    def name(self, table: str) -> str:
        return f'"{table}{self._suffix}"'

    def has(self, table: str, *columns: str) -> bool:
        return self._database.has(f"{table}{self._suffix}", *columns)

    def column(self, table: str, name: str, alias: str = "source") -> str:
        """A column as SQL; NULL if the table does not have it."""
        return f'{alias}."{name}"' if self.has(table, name) else "NULL"

    def device(self, agent: str) -> str:
        """The number of the GPU that is an agent; NULL for a CPU."""
        gpus = {n: one.device for n, one in self._agents.items() if one.device is not None}
        cases = " ".join(f"WHEN {number} THEN {device}" for number, device in gpus.items())
        return f"CASE {agent} {cases} END" if cases else "NULL"

    def thread(self, table: str, alias: str = "source") -> str:
        """The id of the thread of a row, which names it by its place in the list of threads."""
        tid, threads = self.column(table, "tid", alias), "rocpd_info_thread"
        if tid == "NULL" or not self.has(threads, "id", "tid"):
            return tid
        known = f"SELECT thread.tid FROM {self.name(threads)} AS thread WHERE thread.id = {tid}"
        return f"COALESCE(({known}), {tid})"

    def joined(self, table: str, alias: str, column: str) -> str:
        """A join with the row of another table that a column names; nothing if one is absent."""
        if not self.has(table, "id") or column == "NULL":
            return f"LEFT JOIN (SELECT NULL AS id, NULL AS string) AS {alias} ON FALSE"
        return f"LEFT JOIN {self.name(table)} AS {alias} ON {alias}.id = {column}"

    def events(self, table: str) -> str:
        return self.joined("rocpd_event", "event", self.column(table, "event_id"))

    def correlation(self, table: str) -> str:
        known = self.has("rocpd_event", "id", "stack_id") and self.has(table, "event_id")
        return "NULLIF(event.stack_id, 0)" if known else "NULL"


def sources(tables: Tables) -> Iterator[Source]:
    """The kinds of events of the tables that are there."""
    if tables.has("rocpd_kernel_dispatch"):
        yield _kernels(tables, "rocpd_kernel_dispatch")
    if tables.has("rocpd_memory_copy", "start", "end"):
        yield _copies(tables, "rocpd_memory_copy")
    if tables.has("rocpd_region", "start", "end", "name_id"):
        yield _calls(tables, "rocpd_region")
    if tables.has("rocpd_memory_allocate", "start", "end", "type", "level"):
        yield _allocations(tables, "rocpd_memory_allocate")


def message(alias: str = "event") -> str:
    """SQL of the text of a marker, which its event has as JSON."""
    text = f"{alias}.extdata"
    told = f"CAST(json_extract({text}, '$.message') AS TEXT)"
    return f"CASE WHEN json_valid({text}) THEN {told} END"


def _object(**values: str) -> str:
    """SQL of a JSON object without the values that are NULL."""
    inside = ", ".join(f"'{key}', {value}" for key, value in values.items())
    return f"json_patch('{{}}', json_object({inside}))"


def _usual(tables: Tables, table: str) -> dict[str, str]:
    return {
        "ts": "source.start",
        "dur": DURATION,
        "thread": tables.thread(table),
        "place": str(ITSELF),
        "correlation": tables.correlation(table),
    }


def _kernels(tables: Tables, table: str) -> Source:
    symbols = "rocpd_info_kernel_symbol"
    shown, raw = (
        tables.column(symbols, name, "symbol") for name in ("display_name", "kernel_name")
    )
    column = {
        name: tables.column(table, name)
        for name in ("dispatch_id", "queue_id", "stream_id", "agent_id", "kernel_id")
    }
    sizes = {
        f"{what}_{axis}": tables.column(table, f"{word}_size_{axis}")
        for what, word in (("grid", "grid"), ("block", "workgroup"))
        for axis in "xyz"
    }
    args = _object(
        dispatch_id=column["dispatch_id"],
        queue_id=column["queue_id"],
        kernel_id=column["kernel_id"],
        private_segment_size=tables.column(table, "private_segment_size"),
        group_segment_size=tables.column(table, "group_segment_size"),
        arch_vgpr_count=tables.column(symbols, "arch_vgpr_count", "symbol"),
        accum_vgpr_count=tables.column(symbols, "accum_vgpr_count", "symbol"),
        sgpr_count=tables.column(symbols, "sgpr_count", "symbol"),
    )
    return Source(
        tables.name(table),
        f"{tables.joined(symbols, 'symbol', column['kernel_id'])} {tables.events(table)}",
        _usual(tables, table)
        | sizes
        | {
            "cat": f"'{Category.KERNEL}'",
            "name": f"COALESCE(NULLIF({shown}, ''), {raw}, 'kernel ' || {column['kernel_id']})",
            "device": tables.device(column["agent_id"]),
            "stream": column["stream_id"],
            "queue": column["queue_id"],
            "dispatch": column["dispatch_id"],
            "args": args,
        },
        on_gpu=True,
    )


def _copies(tables: Tables, table: str) -> Source:
    target, source = (tables.column(table, f"{end}_agent_id") for end in ("dst", "src"))
    cases = " ".join(f"WHEN '{word}' THEN '{text}'" for word, text in COPIES.items())
    text = tables.column("rocpd_string", "string", "text")
    return Source(
        tables.name(table),
        f"{tables.joined('rocpd_string', 'text', tables.column(table, 'name_id'))} "
        f"{tables.events(table)}",
        _usual(tables, table)
        | {
            "cat": f"'{Category.COPY}'",
            "name": f"CASE {text} {cases} ELSE {text} END",
            "device": f"COALESCE({tables.device(target)}, {tables.device(source)})",
            "stream": tables.column(table, "stream_id"),
            "queue": tables.column(table, "queue_id"),
            "bytes": tables.column(table, "size"),
            "args": _object(dst_agent_id=target, src_agent_id=source),
        },
        on_gpu=True,
    )


def _calls(tables: Tables, table: str) -> Source:
    texts = ", ".join(f"'{name}'" for name in PROCESS_RANGES)
    category = "event.category_id" if tables.has("rocpd_event", "category_id") else "NULL"
    told = message() if tables.has("rocpd_event", "extdata") else "NULL"
    graph, arguments = "NULL", ""
    if tables.has("rocpd_arg", "event_id", "name", "value") and tables.has(table, "event_id"):
        graph = "argument.value"
        # Both sides are few rows: SQLite needs no index for them.
        arguments = (
            f"LEFT JOIN (SELECT event_id, MAX(value) AS value FROM {tables.name('rocpd_arg')} "
            f"WHERE name = '{Argument.GRAPH}' GROUP BY event_id) AS argument "
            f"ON argument.event_id = source.event_id AND text.string LIKE '%{GRAPH_LAUNCH}%'"
        )
    return Source(
        tables.name(table),
        f"{tables.events(table)} {tables.joined('rocpd_string', 'text', 'source.name_id')} "
        f"{tables.joined('rocpd_string', 'category', category)} {arguments}",
        _usual(tables, table)
        | {
            "cat": tables.column("rocpd_string", "string", "category"),
            "name": f"COALESCE({told}, text.string)",
            "place": f"CASE WHEN text.string IN ({texts}) THEN {RANGES} ELSE {ITSELF} END",
            "graph": graph,
        },
        on_gpu=False,
    )


def _allocations(tables: Tables, table: str) -> Source:
    agent = tables.column(table, "agent_id")
    device = tables.device(agent)
    type_ = "CASE source.type WHEN 'ALLOC' THEN 'ALLOCATE' ELSE source.type END"
    return Source(
        tables.name(table),
        tables.events(table),
        _usual(tables, table)
        | {
            "cat": f"CASE source.level WHEN 'SCRATCH' THEN '{Category.SCRATCH}' "
            f"ELSE '{Category.ALLOCATION}' END",
            "name": "CASE source.level WHEN 'SCRATCH' THEN 'SCRATCH_MEMORY_' || source.type "
            f"WHEN 'VIRTUAL' THEN 'MEMORY_ALLOCATION_VMEM_' || {type_} "
            f"ELSE 'MEMORY_ALLOCATION_' || {type_} END",
            "place": str(MEMORY),
            "args": _object(
                **{
                    Argument.ADDRESS: tables.column(table, "address"),
                    Argument.BYTES: tables.column(table, "size"),
                    Argument.DEVICE: device,
                    Argument.DEVICE_TYPE: f"CASE WHEN {device} IS NOT NULL THEN 'hip' "
                    f"WHEN {agent} IS NOT NULL THEN 'cpu' END",
                }
            ),
        },
        on_gpu=False,
    )
