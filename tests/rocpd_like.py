"""Outputs as rocprofv3 of ROCm 7 writes them: in words, or the same run that a PyTorch trace has.

`write_rocpd(path, [Recorded(100, [kernel("gemm", ts=1, dur=5, correlation=1), call(...)])])` is a
database of one process. Times are ns since the machine was started, and above zero.
"""

import csv
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from databases import document, ns

GPU_NAME = "AMD Instinct MI300X"
CPU, FIRST_GPU = 0, 2  # numbers of the processors on their machine
_GPUS = 10
_ZERO_NS = 1_000_000_000_000  # of the first event of a run that a PyTorch trace has
KERNEL, COPY, CALL, MARKER, HSA, ALLOCATION = (
    "KERNEL_DISPATCH",
    "MEMORY_COPY",
    "HIP_RUNTIME_API_EXT",
    "MARKER_CORE_RANGE_API",
    "HSA_CORE_API",
    "MEMORY_ALLOCATION",
)
DIRECTIONS = {
    "HtoH": "MEMORY_COPY_HOST_TO_HOST",
    "HtoD": "MEMORY_COPY_HOST_TO_DEVICE",
    "DtoH": "MEMORY_COPY_DEVICE_TO_HOST",
    "DtoD": "MEMORY_COPY_DEVICE_TO_DEVICE",
}
_CPU_COPIES = {"MEMORY_COPY_HOST_TO_DEVICE": "src", "MEMORY_COPY_DEVICE_TO_HOST": "dst"}


@dataclass(frozen=True)
class Record:
    """A record. `message` is the text of a marker, and `device` the number of a GPU."""

    kind: str
    name: str
    ts: int
    dur: int
    tid: int
    correlation: int = 0
    device: int = 0
    stream: int = 1
    queue: int = 1
    dispatch: int | None = None  # by default, kernels are numbered in the order of the list
    grid: tuple[int, int, int] = (1, 1, 1)  # blocks
    block: tuple[int, int, int] = (64, 1, 1)
    bytes: int = 0
    address: int = 0
    message: str | None = None
    args: dict[str, str] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.ts + self.dur

    @property
    def threads(self) -> list[int]:
        """The grid as AMD counts it."""
        return [blocks * size for blocks, size in zip(self.grid, self.block, strict=True)]

    def agents(self) -> tuple[int, int]:
        """The source and the target of a copy."""
        gpu = FIRST_GPU + self.device
        on_cpu = _CPU_COPIES.get(self.name)
        return CPU if on_cpu == "src" else gpu, CPU if on_cpu == "dst" else gpu


@dataclass(frozen=True)
class Recorded:
    """A process and its records, of which the kernels are numbered."""

    pid: int
    listed: Sequence[Record]

    @property
    def records(self) -> list[Record]:
        numbers = iter(range(1, len(self.listed) + 1))
        return [
            replace(r, dispatch=next(numbers)) if r.kind == KERNEL and r.dispatch is None else r
            for r in self.listed
        ]

    def of(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record.kind in kinds]


PID = 100


def kernel(name: str = "Cijk_gemm", *, ts: int, dur: int, **values: Any) -> Record:
    return Record(KERNEL, name, ts, dur, **_on_main(values))


def copy(direction: str = "HtoD", *, ts: int, dur: int, **values: Any) -> Record:
    return Record(COPY, DIRECTIONS[direction], ts, dur, **_on_main(values))


def call(name: str = "hipLaunchKernel", *, ts: int, dur: int, **values: Any) -> Record:
    return Record(CALL, name, ts, dur, **_on_main(values))


def marker(text: str, *, ts: int, dur: int, **values: Any) -> Record:
    name = "roctxThreadRangeA" if dur else "roctxMarkA"
    return Record(MARKER, name, ts, dur, **_on_main({"message": text} | values))


def allocation(*, ts: int, dur: int, address: int, bytes: int = 0, **values: Any) -> Record:
    """An allocation, or a free, which has no size."""
    name = "MEMORY_ALLOCATION_" + ("ALLOCATE" if bytes else "FREE")
    told = {"address": address, "bytes": bytes} | values
    return Record(ALLOCATION, name, ts, dur, **_on_main(told))


def _on_main(values: dict[str, Any]) -> dict[str, Any]:
    """The values, on the main thread if they do not say otherwise."""
    return {"tid": PID} | values


def run(files: Sequence[Path]) -> list[Recorded]:
    """The processes of a run, from the PyTorch trace of each of its ranks."""
    first = min(ns(event["ts"]) for file in files for event in _complete(file))
    shift = _ZERO_NS - first
    return [Recorded(PID + n, list(_records(file, shift))) for n, file in enumerate(files)]


def _complete(file: Path) -> Iterable[dict[str, Any]]:
    return [event for event in document(file)["traceEvents"] if event["ph"] == "X"]


def _records(file: Path, shift: int) -> Iterator[Record]:
    """A rank: its GPU activities, its calls, and its annotations as markers.

    Memory sets are kernels on AMD's GPUs.
    """
    for number, event in enumerate(_complete(file), 1_000_000):
        cat, args = event.get("cat"), event.get("args", {})
        times: dict[str, Any] = {"ts": ns(event["ts"]) + shift, "dur": ns(event["dur"])}
        if cat in ("kernel", "gpu_memset", "gpu_memcpy"):
            where = times | {
                "device": args["device"],
                "stream": args["stream"],
                "correlation": args.get("correlation") or 0,
            }
            if cat == "gpu_memcpy":
                yield copy(event["name"].split()[1], **where, bytes=args["bytes"])
            elif cat == "gpu_memset":
                yield kernel("__amd_rocclr_fillBufferAligned", **where)
            else:
                sizes = {what: tuple(args[what]) for what in ("grid", "block") if what in args}
                yield kernel(event["name"], **(where | sizes))
        elif cat in ("cuda_runtime", "cuda_driver"):
            correlation = args.get("correlation") or 0
            yield call(event["name"], **times, tid=event["tid"], correlation=correlation)
        elif cat == "user_annotation":
            yield marker(event["name"], **times, tid=event["tid"], correlation=number)


_TABLES = {
    "rocpd_metadata": "id tag value",
    "rocpd_string": "id guid string",
    "rocpd_info_process": "id guid nid ppid pid init fini start end command environment extdata",
    "rocpd_info_thread": "id guid nid ppid pid tid name start end extdata",
    "rocpd_info_agent": "id guid nid pid type absolute_index logical_index type_index uuid name "
    "model_name vendor_name product_name user_name extdata",
    "rocpd_info_kernel_symbol": "id guid nid pid code_object_id kernel_name display_name "
    "arch_vgpr_count accum_vgpr_count sgpr_count extdata",
    "rocpd_info_pmc": "id guid nid pid agent_id name symbol units",
    "rocpd_track": "id guid nid pid tid name_id extdata",
    "rocpd_event": "id guid category_id stack_id parent_stack_id correlation_id call_stack "
    "line_info extdata",
    "rocpd_arg": "id guid event_id position type name value extdata",
    "rocpd_pmc_event": "id guid event_id pmc_id value extdata",
    "rocpd_region": "id guid nid pid tid start end name_id event_id extdata",
    "rocpd_sample": "id guid track_id timestamp event_id extdata",
    "rocpd_kernel_dispatch": "id guid nid pid tid agent_id kernel_id dispatch_id queue_id "
    "stream_id start end private_segment_size group_segment_size workgroup_size_x "
    "workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z region_name_id "
    "event_id extdata",
    "rocpd_memory_copy": "id guid nid pid tid start end name_id dst_agent_id dst_address "
    "src_agent_id src_address size queue_id stream_id region_name_id event_id extdata",
    "rocpd_memory_allocate": "id guid nid pid tid agent_id type level start end address size "
    "queue_id stream_id event_id extdata",
}
_TEXTS = {"tag", "guid", "string", "command", "environment", "extdata", "type", "name", "level"}
_TEXTS |= {"kernel_name", "display_name", "product_name", "call_stack", "line_info"}


def _declared(column: str) -> str:
    """The type of a column; values are numbers or texts."""
    return "TEXT" if column in _TEXTS else "" if column == "value" else "INTEGER"


def suffix(pid: int) -> str:
    return f"_0000{pid:04x}_1111_7222_8333_444444444444"


FORMS = ("rocpd", "json", "csv")


def write(folder: Path, form: str, *processes: Recorded) -> Path:
    """Writes processes in one form; returns the file that stands for the first of them."""
    name = f"{processes[0].pid}_results"
    if form == "rocpd":
        return write_rocpd(folder / f"{name}.db", processes)
    if form == "json":
        return write_json(folder / f"{name}.json", processes)
    files = [write_csv(folder, process) for process in processes]
    return files[0]


def write_rocpd(path: Path, processes: Sequence[Recorded]) -> Path:
    """Writes a database with a set of tables for each process, as `rocpd merge` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as con, con:
        for process in processes:
            _Rocpd(con, process).write()
    return path


class _Rocpd:
    """Writes the tables of one process."""

    def __init__(self, con: sqlite3.Connection, process: Recorded) -> None:
        self._con, self._process = con, process
        self._suffix = suffix(process.pid)
        self._strings: dict[str, int] = {}
        self._kernels: dict[str, int] = {}
        self._events = 0

    def write(self) -> None:
        pid = self._process.pid
        for table, columns in _TABLES.items():
            declared = ", ".join(f'"{c}" {_declared(c)}' for c in columns.split())
            self._con.execute(f'CREATE TABLE "{table}{self._suffix}" ({declared})')
            self._con.execute(
                f'CREATE VIEW IF NOT EXISTS "{table}" AS SELECT * FROM "{table}{self._suffix}"'
            )
        self._add("rocpd_metadata", id=1, tag="schema_version", value="3")
        command = "/usr/bin/python3 -m vllm --api-key SECRET"
        self._add("rocpd_info_process", id=pid, pid=pid, command=command, extdata="{}")
        self._add("rocpd_info_agent", id=CPU, type="CPU", type_index=0, name="AMD EPYC")
        for number in range(_GPUS):
            about = {"type_index": number, "name": "gfx942", "product_name": GPU_NAME}
            self._add("rocpd_info_agent", id=FIRST_GPU + number, type="GPU", **about)
        for record in self._process.records:
            self._record(record)
        for text, number in self._strings.items():
            self._add("rocpd_string", id=number, string=text)
        for name, number in self._kernels.items():
            about = {"kernel_name": f"{name}.kd", "display_name": name, "arch_vgpr_count": 8}
            self._add("rocpd_info_kernel_symbol", id=number, **about)

    def _record(self, record: Record) -> None:
        self._events += 1
        event = self._events
        extdata = "{}" if record.message is None else json.dumps({"message": record.message})
        stack = {"stack_id": record.correlation, "correlation_id": 0}
        self._add(
            "rocpd_event", id=event, category_id=self._id(record.kind), extdata=extdata, **stack
        )
        for position, (name, value) in enumerate(record.args.items()):
            about = {"position": position, "type": "void*", "name": name, "value": value}
            self._add("rocpd_arg", event_id=event, **about)
        place = {"pid": self._process.pid, "tid": record.tid}
        usual: dict[str, Any] = {**place, "event_id": event, "start": record.ts, "end": record.end}
        on_gpu = usual | {"queue_id": record.queue, "stream_id": record.stream}
        if record.kind == KERNEL:
            sizes = {f"grid_size_{axis}": n for axis, n in zip("xyz", record.threads, strict=True)}
            sizes |= {f"workgroup_size_{a}": n for a, n in zip("xyz", record.block, strict=True)}
            number = self._kernels.setdefault(record.name, len(self._kernels) + 1)
            about = {"agent_id": FIRST_GPU + record.device, "dispatch_id": record.dispatch}
            self._add("rocpd_kernel_dispatch", **on_gpu, **sizes, **about, kernel_id=number)
        elif record.kind == COPY:
            source, target = record.agents()
            told = {"name_id": self._id(record.name), "size": record.bytes}
            ends = {"src_agent_id": source, "dst_agent_id": target}
            self._add("rocpd_memory_copy", **on_gpu, **ends, **told)
        elif record.kind == ALLOCATION:
            usual |= {"type": "ALLOC" if record.bytes else "FREE", "level": "REAL"}
            usual |= {"agent_id": FIRST_GPU + record.device if record.bytes else None}
            sizes = {"address": record.address, "size": record.bytes}
            self._add("rocpd_memory_allocate", **usual, **sizes)
        elif record.dur:
            self._add("rocpd_region", **usual, name_id=self._id(record.name))
        else:
            self._add("rocpd_track", id=event, **place, name_id=self._id(record.kind))
            self._add("rocpd_sample", track_id=event, timestamp=record.ts, event_id=event)

    def _id(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings) + 1)

    def _add(self, table: str, **values: Any) -> None:
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        self._con.execute(
            f'INSERT INTO "{table}{self._suffix}" ({names}) VALUES ({marks})', [*values.values()]
        )


# Lists of records of the JSON, by kind of record; and the operations of each kind.
_LISTS = {
    KERNEL: "kernel_dispatch",
    COPY: "memory_copy",
    CALL: "hip_api",
    MARKER: "marker_api",
    HSA: "hsa_api",
    ALLOCATION: "memory_allocation",
}


def write_json(path: Path, processes: Sequence[Recorded]) -> Path:
    """Writes the JSON of these processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"rocprofiler-sdk-tool": [_tool_process(process) for process in processes]}
    path.write_text(json.dumps(found, indent=1))
    return path


def _tool_process(process: Recorded) -> dict[str, Any]:
    kinds = ["NONE", *_LISTS]
    operations: dict[str, list[str]] = {kind: [] for kind in kinds}
    symbols: dict[str, int] = {}
    lists: dict[str, list[Any]] = {name: [] for name in _LISTS.values()}
    for record in process.records:
        names = operations[record.kind]
        if record.kind == KERNEL:
            symbols.setdefault(record.name, len(symbols) + 1)
        elif record.name not in names:
            names.append(record.name)
        operation = 0 if record.kind == KERNEL else names.index(record.name)
        lists[_LISTS[record.kind]].append(
            {
                "size": 8,
                "kind": kinds.index(record.kind),
                "operation": operation,
                "thread_id": record.tid,
                "correlation_id": {"internal": record.correlation, "external": 0},
                "start_timestamp": record.ts,
                "end_timestamp": record.end,
                **_own_fields(record, symbols),
            }
        )
    gpus = [
        {"id": {"handle": 9000 + FIRST_GPU + n}, "type": 2, "node_id": FIRST_GPU + n}
        | {"logical_node_type_id": n, "name": "gfx942", "product_name": GPU_NAME}
        for n in range(_GPUS)
    ]
    messages = [(r.correlation, r.message) for r in process.records if r.message is not None]
    return {
        "metadata": {"pid": process.pid, "command": ["/usr/bin/python3", "--api-key", "SECRET"]},
        "agents": [{"id": {"handle": 9000 + CPU}, "type": 1, "logical_node_type_id": 0}, *gpus],
        "counters": [],
        "strings": {
            "buffer_records": [{"kind": k, "operations": operations[k]} for k in kinds],
            "marker_api": [{"key": key, "value": text} for key, text in messages],
        },
        "kernel_symbols": [
            {"kernel_id": number, "formatted_kernel_name": name, "kernel_name": f"{name}.kd"}
            for name, number in symbols.items()
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": lists,
    }


def _own_fields(record: Record, symbols: dict[str, int]) -> dict[str, Any]:
    stream = {"stream_id": {"handle": record.stream}}
    if record.kind == KERNEL:
        info = {
            "agent_id": {"handle": 9000 + FIRST_GPU + record.device},
            "queue_id": {"handle": record.queue},
            "kernel_id": symbols[record.name],
            "dispatch_id": record.dispatch,
            "workgroup_size": dict(zip("xyz", record.block, strict=True)),
            "grid_size": dict(zip("xyz", record.threads, strict=True)),
        }
        return stream | {"dispatch_info": info}
    if record.kind == COPY:
        source, target = ({"handle": 9000 + agent} for agent in record.agents())
        return stream | {"src_agent_id": source, "dst_agent_id": target, "bytes": record.bytes}
    if record.kind == ALLOCATION:
        agent = 9000 + FIRST_GPU + record.device if record.bytes else 0
        told = {"address": f"0x{record.address:016x}", "allocation_size": record.bytes}
        return {"agent_id": {"handle": agent}} | told
    args = [{"type": "void*", "name": name, "value": v} for name, v in record.args.items()]
    return stream | {"args": args} if record.kind == CALL else {}


_API = "Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp"
HEADERS = {
    "kernel_trace": "Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name "
    "Correlation_Id Start_Timestamp End_Timestamp Workgroup_Size_X Workgroup_Size_Y "
    "Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z",
    "memory_copy_trace": "Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id "
    "Correlation_Id Start_Timestamp End_Timestamp",
    "memory_allocation_trace": "Kind Operation Agent_Id Allocation_Size Address Correlation_Id "
    "Start_Timestamp End_Timestamp",
    "hip_api_trace": _API,
    "marker_api_trace": _API,
    "hsa_api_trace": _API,
    "agent_info": "Node_Id Logical_Node_Id Agent_Type Name Vendor_Name Product_Name",
}
_API_FILES = {"hip_api_trace": CALL, "marker_api_trace": MARKER, "hsa_api_trace": HSA}


def write_csv(folder: Path, process: Recorded) -> Path:
    """Writes the CSV files of a process; returns the one with the kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {kind: list(_rows(kind, process)) for kind in HEADERS}
    for kind, listed in rows.items():
        if listed:
            with (folder / f"{process.pid}_{kind}.csv").open("w", newline="") as file:
                writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
                writer.writerows([HEADERS[kind].split(), *listed])
    return folder / f"{process.pid}_kernel_trace.csv"


def _rows(kind: str, process: Recorded) -> Iterator[list[Any]]:
    """The rows of a file."""
    numbers: dict[str, int] = {}
    if kind == "agent_info":
        yield [CPU, CPU, "CPU", "AMD EPYC", "CPU", "AMD EPYC"]
        for n in range(FIRST_GPU, FIRST_GPU + _GPUS):
            yield [n, n, "GPU", "gfx942", "AMD", GPU_NAME]
    elif kind == "kernel_trace":
        for r in process.of(KERNEL):
            number = numbers.setdefault(r.name, len(numbers) + 1)
            where = [f"Agent {FIRST_GPU + r.device}", r.queue, r.stream, r.tid, r.dispatch]
            times = [r.correlation, r.ts, r.end]
            yield [KERNEL, *where, number, r.name, *times, *r.block, *r.threads]
    elif kind == "memory_copy_trace":
        for r in process.of(COPY):
            agents = [f"Agent {agent}" for agent in r.agents()]
            yield [COPY, r.name, r.stream, *agents, r.correlation, r.ts, r.end]
    elif kind == "memory_allocation_trace":
        for r in process.of(ALLOCATION):
            agent = f"Agent {FIRST_GPU + r.device}" if r.bytes else ""
            told = [agent, r.bytes, f"0x{r.address:016x}"]
            yield [ALLOCATION, r.name, *told, r.correlation, r.ts, r.end]
    else:
        for r in process.of(_API_FILES[kind]):
            text = r.message or r.name
            yield [r.kind, text, process.pid, r.tid, r.correlation, r.ts, r.end]
