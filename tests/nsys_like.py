"""Exports as Nsight Systems 2026.1 writes them: in words, or the same run that a PyTorch trace has.

`write(path, kernel("gemm", ts=0, dur=5, correlation=1), call(ts=0, dur=1, correlation=1))` is an
export of one process. Times are ns since the session began. Columns may be NULL that never are in
a real export, so that tests can damage it.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
SESSION_NS = 1_790_857_026_000_000_000  # Unix time of the start of the session

COLUMNS = {
    "StringIds": "id value",
    KERNEL: "start end deviceId contextId greenContextId streamId correlationId globalPid "
    "demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY "
    "gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread "
    "localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig graphId",
    MEMCPY: "start end deviceId contextId greenContextId streamId correlationId globalPid bytes "
    "copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId "
    "migrationCause graphNodeId virtualAddress copyCount graphId",
    MEMSET: "start end deviceId contextId greenContextId streamId correlationId globalPid value "
    "bytes graphNodeId memKind graphId",
    RUNTIME: "start end eventClass globalTid correlationId nameId returnValue callchainId",
    NVTX: "start end eventType rangeId category color text globalTid endGlobalTid textId domainId "
    "uint64Value int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText "
    "binaryData",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "GPU_METRICS": "rawTimestamp timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName metricId metricName",
    "META_DATA_EXPORT": "name value",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_GPU": "vmId id name busLocation smCount totalMemory uuid cuDevice",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "PROCESSES": "globalPid pid name",
    "ThreadNames": "nameId priority globalTid",
}
_TEXT = {
    *("text", "name", "utcTime", "localTime", "busLocation", "uuid", "jsonText", "binaryData"),
    *("typeName", "metricName"),
}
_TEXT_VALUES = ("StringIds", "META_DATA_EXPORT", "META_DATA_CAPTURE")
_EXPORT_OPTIONS = {
    "EXPORT_PRODUCT_VERSION": "2026.1.1.204",
    "EXPORT_SCHEMA_VERSION": "3.24.14",
    "EXPORT_PARAM_LAZY": "true",
    "EXPORT_PARAM_TIME_NORMALIZE": "false",
    "EXPORT_PARAM_TIME_SHIFT": "0",
}
PUSH_POP = 59  # NVTX_EVENTS.eventType
PID = 100  # of the only process of an export in words
_OF_TEXTS = ("Name", "nameId", "textId")
_TID = 0xFFFFFF


class Row(NamedTuple):
    """A row of a table; values of a column that ends in `nameId` or `Name` may be texts."""

    table: str
    values: dict[str, Any]


def global_id(pid: int, tid: int = 0) -> int:
    """A globalTid, or a globalPid without `tid`."""
    return pid << 24 | tid & _TID


def kernel(
    name: str | None = "nvjet_sm90_gemm",
    *,
    ts: Any,
    dur: int,
    correlation: int | None = None,
    pid: int = PID,
    **values: Any,
) -> Row:
    """A kernel; `values` are those of other columns, or replace these."""
    usual = {
        "start": ts,
        "end": ts + dur,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": global_id(pid),
        "demangledName": name,
        "shortName": name,
    }
    return Row(KERNEL, usual | values)


def call(
    name: str = "cudaLaunchKernel_v7000",
    *,
    ts: int,
    dur: int,
    correlation: int | None = None,
    pid: int = PID,
    **values: Any,
) -> Row:
    """A call of the runtime API on the main thread."""
    usual = {
        "start": ts,
        "end": ts + dur,
        "eventClass": 0,
        "globalTid": global_id(pid, pid),
        "correlationId": correlation,
        "nameId": name,
        "returnValue": 0,
    }
    return Row(RUNTIME, usual | values)


def nvtx(text: str, *, ts: int, dur: int, pid: int = PID, **values: Any) -> Row:
    """A range that was pushed and popped on the main thread."""
    usual = {
        "start": ts,
        "end": ts + dur,
        "eventType": PUSH_POP,
        "text": text,
        "globalTid": global_id(pid, pid),
        "domainId": 0,
    }
    return Row(NVTX, usual | values)


def write(path: Path, *rows: Row, session_ns: int = SESSION_NS, without: str = "") -> Path:
    """Writes an export with all tables of COLUMNS, or all but one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strings: dict[str, int] = {}
    options = [Row("META_DATA_EXPORT", {"name": k, "value": v}) for k, v in _EXPORT_OPTIONS.items()]
    mode = Row("META_DATA_CAPTURE", {"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Node"})
    start = Row("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": session_ns})
    with closing(sqlite3.connect(path)) as con, con:
        for table, columns in COLUMNS.items():
            declared = [_declared(table, column) for column in columns.split()]
            con.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
        for table, values in (*options, mode, start, *rows):
            numbers = {name: _number(strings, name, value) for name, value in values.items()}
            marks = ", ".join("?" * len(numbers))
            names = ", ".join(f'"{name}"' for name in numbers)
            con.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*numbers.values()])
        if without:
            con.execute(f"DROP TABLE {without}")
        con.executemany(
            "INSERT OR REPLACE INTO StringIds VALUES (?, ?)",
            [(number, text) for text, number in strings.items()],
        )
    return path


def _declared(table: str, column: str) -> str:
    is_text = column in _TEXT or (column == "value" and table in _TEXT_VALUES)
    return f'"{column}" {"TEXT" if is_text else "INTEGER"}'


def _number(strings: dict[str, int], column: str, value: Any) -> Any:
    if isinstance(value, str) and column not in _TEXT and column.endswith(_OF_TEXTS):
        return strings.setdefault(value, len(strings) + 1)
    return value
