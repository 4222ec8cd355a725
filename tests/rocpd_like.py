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
KERNEL, COPY, ALLOCATION = "KERNEL_DISPATCH", "MEMORY_COPY", "MEMORY_ALLOCATION"
CALL, MARKER, HSA = "HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "HSA_CORE_API"
DIRECTIONS = {
    f"{a[0]}to{b[0]}": f"MEMORY_COPY_{a}_TO_{b}".upper()
    for a in ("Host", "Device")
    for b in ("Host", "Device")
}


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
        source = CPU if self.name.endswith("HOST_TO_DEVICE") else gpu
        return source, CPU if self.name.endswith("DEVICE_TO_HOST") else gpu


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


def kernel(name: str = "Cijk_gemm", *, ts: int, dur: int, tid: int = PID, **values: Any) -> Record:
    return Record(KERNEL, name, ts, dur, tid, **values)


def copy(direction: str = "HtoD", *, ts: int, dur: int, tid: int = PID, **values: Any) -> Record:
    return Record(COPY, DIRECTIONS[direction], ts, dur, tid, **values)


def call(
    name: str = "hipLaunchKernel", *, ts: int, dur: int, tid: int = PID, **values: Any
) -> Record:
    return Record(CALL, name, ts, dur, tid, **values)


def marker(text: str, *, ts: int, dur: int, tid: int = PID, **values: Any) -> Record:
    name = "roctxThreadRangeA" if dur else "roctxMarkA"
    return Record(MARKER, name, ts, dur, tid, message=text, **values)


def allocation(*, ts: int, dur: int, address: int, bytes: int = 0, **values: Any) -> Record:
    """An allocation, or a free, which has no size."""
    name = "MEMORY_ALLOCATION_" + ("ALLOCATE" if bytes else "FREE")
    return Record(ALLOCATION, name, ts, dur, PID, address=address, bytes=bytes, **values)


def run(files: Sequence[Path]) -> list[Recorded]:
    """The processes of a run, from the PyTorch trace of each of its ranks."""
    complete = [[e for e in document(file)["traceEvents"] if e["ph"] == "X"] for file in files]
    shift = _ZERO_NS - min(ns(event["ts"]) for events in complete for event in events)
    return [Recorded(PID + n, list(_records(events, shift))) for n, events in enumerate(complete)]


def _records(events: Iterable[dict[str, Any]], shift: int) -> Iterator[Record]:
    """A rank: its GPU activities, its calls, and its annotations as markers.

    Memory sets are kernels on AMD's GPUs.
    """
    for number, event in enumerate(events, 1_000_000):
        cat, args = event.get("cat"), event.get("args", {})
        values: dict[str, Any] = {"ts": ns(event["ts"]) + shift, "dur": ns(event["dur"])}
        values["correlation"] = args.get("correlation") or 0
        if cat in ("kernel", "gpu_memset", "gpu_memcpy"):
            values |= {"device": args["device"], "stream": args["stream"]}
        else:
            values["tid"] = event["tid"]
        if cat == "gpu_memcpy":
            yield copy(event["name"].split()[1], **values, bytes=args["bytes"])
        elif cat == "gpu_memset":
            yield kernel("__amd_rocclr_fillBufferAligned", **values)
        elif cat == "kernel":
            sizes = {what: tuple(args[what]) for what in ("grid", "block") if what in args}
            yield kernel(event["name"], **(values | sizes))
        elif cat in ("cuda_runtime", "cuda_driver"):
            yield call(event["name"], **values)
        elif cat == "user_annotation":
            yield marker(event["name"], **(values | {"correlation": number}))


_TABLES = {
    "rocpd_metadata": "id tag value",
    "rocpd_string": "id guid string",
    "rocpd_info_process": "id guid nid ppid pid start end command environment extdata",
    "rocpd_info_thread": "id guid nid ppid pid tid name start end extdata",
    "rocpd_info_agent": "id guid nid pid type type_index uuid name product_name extdata",
    "rocpd_info_kernel_symbol": "id guid nid pid code_object_id kernel_name display_name "
    "arch_vgpr_count accum_vgpr_count sgpr_count extdata",
    "rocpd_info_pmc": "id guid nid pid agent_id name symbol units",
    "rocpd_track": "id guid nid pid tid name_id extdata",
    "rocpd_event": "id guid category_id stack_id parent_stack_id correlation_id extdata",
    "rocpd_arg": "id guid event_id position type name value extdata",
    "rocpd_pmc_event": "id guid event_id pmc_id value extdata",
    "rocpd_region": "id guid nid pid tid start end name_id event_id extdata",
    "rocpd_sample": "id guid track_id timestamp event_id extdata",
    "rocpd_kernel_dispatch": "id guid nid pid tid agent_id kernel_id dispatch_id queue_id "
    "stream_id start end private_segment_size group_segment_size workgroup_size_x "
    "workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z event_id extdata",
    "rocpd_memory_copy": "id guid nid pid tid start end name_id dst_agent_id src_agent_id size "
    "queue_id stream_id event_id extdata",
    "rocpd_memory_allocate": "id guid nid pid tid agent_id type level start end address size "
    "queue_id stream_id event_id extdata",
}
_TEXTS = {"tag", "guid", "string", "command", "environment", "extdata", "type", "name", "level"}
_TEXTS |= {"kernel_name", "display_name", "product_name"}


def _declared(column: str) -> str:
    """A column and its type; values are numbers or texts."""
    kind = "TEXT" if column in _TEXTS else "" if column == "value" else "INTEGER"
    return f'"{column}" {kind}'


def suffix(pid: int) -> str:
    return f"_0000{pid:04x}_1111_7222_8333_444444444444"


FORMS = ("rocpd", "json", "csv")


def write(folder: Path, form: str, *processes: Recorded) -> Path:
    """Writes processes in one form; returns the file that stands for the first of them."""
    if form == "csv":
        first, *_ = [write_csv(folder, process) for process in processes]
        return first
    if form == "json":
        return write_json(folder / f"{processes[0].pid}_results.json", processes)
    return write_rocpd(folder / f"{processes[0].pid}_results.db", processes)


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
        self._con, self._process, self._suffix = con, process, suffix(process.pid)
        self._strings: dict[str, int] = {}
        self._kernels: dict[str, int] = {}

    def write(self) -> None:
        pid = self._process.pid
        for table, columns in _TABLES.items():
            declared, name = ", ".join(map(_declared, columns.split())), f"{table}{self._suffix}"
            self._con.execute(f'CREATE TABLE "{name}" ({declared})')
            self._con.execute(f'CREATE VIEW IF NOT EXISTS "{table}" AS SELECT * FROM "{name}"')
        self._add("rocpd_metadata", id=1, tag="schema_version", value="3")
        command = "/usr/bin/python3 -m vllm --api-key SECRET"
        self._add("rocpd_info_process", id=pid, pid=pid, command=command, extdata="{}")
        self._add("rocpd_info_agent", id=CPU, type="CPU", type_index=0, name="AMD EPYC")
        for number in range(_GPUS):
            about = {"type_index": number, "name": "gfx942", "product_name": GPU_NAME}
            self._add("rocpd_info_agent", id=FIRST_GPU + number, type="GPU", **about)
        for event, record in enumerate(self._process.records, 1):
            self._record(event, record)
        for text, number in self._strings.items():
            self._add("rocpd_string", id=number, string=text)
        for name, number in self._kernels.items():
            about = {"kernel_name": f"{name}.kd", "display_name": name, "arch_vgpr_count": 8}
            self._add("rocpd_info_kernel_symbol", id=number, **about)

    def _record(self, event: int, record: Record) -> None:
        extdata = "{}" if record.message is None else json.dumps({"message": record.message})
        stack = {"category_id": self._id(record.kind), "stack_id": record.correlation}
        self._add("rocpd_event", id=event, correlation_id=0, extdata=extdata, **stack)
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


# Lists of records of the JSON, by kind of record.
_LISTS = {KERNEL: "kernel_dispatch", COPY: "memory_copy", ALLOCATION: "memory_allocation"}
_LISTS |= {CALL: "hip_api", MARKER: "marker_api", HSA: "hsa_api"}


def write_json(path: Path, processes: Sequence[Recorded]) -> Path:
    """Writes the JSON of these processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"rocprofiler-sdk-tool": [_tool_process(process) for process in processes]}
    path.write_text(json.dumps(found, indent=1))
    return path


def _tool_process(process: Recorded) -> dict[str, Any]:
    kinds = ["NONE", *_LISTS]
    operations: dict[str, list[str]] = {kind: [] for kind in kinds}
    lists: dict[str, list[Any]] = {name: [] for name in _LISTS.values()}
    symbols = list(dict.fromkeys(record.name for record in process.of(KERNEL)))
    for record in process.records:
        names = symbols if record.kind == KERNEL else operations[record.kind]
        if record.name not in names:
            names.append(record.name)
        operation = 0 if record.kind == KERNEL else names.index(record.name)
        lists[_LISTS[record.kind]].append(
            {
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
        "strings": {
            "buffer_records": [{"kind": k, "operations": operations[k]} for k in kinds],
            "marker_api": [{"key": key, "value": text} for key, text in messages],
        },
        "kernel_symbols": [
            {"kernel_id": number, "formatted_kernel_name": name, "kernel_name": f"{name}.kd"}
            for number, name in enumerate(symbols, 1)
        ],
        "buffer_records": lists,
    }


def _own_fields(record: Record, symbols: list[str]) -> dict[str, Any]:
    stream = {"stream_id": {"handle": record.stream}}
    if record.kind == KERNEL:
        info = {
            "agent_id": {"handle": 9000 + FIRST_GPU + record.device},
            "queue_id": {"handle": record.queue},
            "kernel_id": symbols.index(record.name) + 1,
            "dispatch_id": record.dispatch,
            "workgroup_size": dict(zip("xyz", record.block, strict=True)),
            "grid_size": dict(zip("xyz", record.threads, strict=True)),
        }
        return stream | {"dispatch_info": info}
    if record.kind == COPY:
        source, target = ({"handle": 9000 + agent} for agent in record.agents())
        return stream | {"src_agent_id": source, "dst_agent_id": target, "bytes": record.bytes}
    if record.kind == ALLOCATION:
        agent = {"handle": 9000 + FIRST_GPU + record.device if record.bytes else 0}
        address = f"0x{record.address:016x}"
        return {"agent_id": agent, "address": address, "allocation_size": record.bytes}
    args = [{"type": "void*", "name": name, "value": v} for name, v in record.args.items()]
    return stream | {"args": args} if record.kind == CALL else {}


_API = "Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp"
_API_FILES = {"hip_api_trace": CALL, "marker_api_trace": MARKER, "hsa_api_trace": HSA}
HEADERS = {
    "kernel_trace": "Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name "
    "Correlation_Id Start_Timestamp End_Timestamp Workgroup_Size_X Workgroup_Size_Y "
    "Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z",
    "memory_copy_trace": "Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id "
    "Correlation_Id Start_Timestamp End_Timestamp",
    "memory_allocation_trace": "Kind Operation Agent_Id Allocation_Size Address Correlation_Id "
    "Start_Timestamp End_Timestamp",
    **dict.fromkeys(_API_FILES, _API),
    "agent_info": "Node_Id Logical_Node_Id Agent_Type Name Vendor_Name Product_Name",
}


def write_csv(folder: Path, process: Recorded) -> Path:
    """Writes the CSV files of a process; returns the one with the kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    gpus = [[n, n, "GPU", "gfx942", "AMD", GPU_NAME] for n in range(FIRST_GPU, FIRST_GPU + _GPUS)]
    rows: dict[str, list[Any]] = {kind: [] for kind in HEADERS}
    rows["agent_info"] = [[CPU, CPU, "CPU", "AMD EPYC", "CPU", "AMD EPYC"], *gpus]
    numbers: dict[str, int] = {}
    for r in process.records:
        gpu, times = f"Agent {FIRST_GPU + r.device}", [r.correlation, r.ts, r.end]
        if r.kind == KERNEL:
            where = [gpu, r.queue, r.stream, r.tid, r.dispatch]
            number = numbers.setdefault(r.name, len(numbers) + 1)
            row = [KERNEL, *where, number, r.name, *times, *r.block, *r.threads]
            rows["kernel_trace"].append(row)
        elif r.kind == COPY:
            agents = [f"Agent {agent}" for agent in r.agents()]
            rows["memory_copy_trace"].append([COPY, r.name, r.stream, *agents, *times])
        elif r.kind == ALLOCATION:
            place = [gpu if r.bytes else "", r.bytes, f"0x{r.address:016x}"]
            rows["memory_allocation_trace"].append([ALLOCATION, r.name, *place, *times])
        else:
            kind = next(name for name, kind in _API_FILES.items() if kind == r.kind)
            rows[kind].append([r.kind, r.message or r.name, process.pid, r.tid, *times])
    for kind, listed in rows.items():
        if listed:
            with (folder / f"{process.pid}_{kind}.csv").open("w", newline="") as file:
                writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
                writer.writerows([HEADERS[kind].split(), *listed])
    return folder / f"{process.pid}_kernel_trace.csv"
