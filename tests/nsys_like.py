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

_ACTIVITY = "start end deviceId contextId greenContextId streamId correlationId globalPid "
COLUMNS = {
    "StringIds": "id value",
    KERNEL: _ACTIVITY + "demangledName shortName launchType registersPerThread gridX gridY gridZ "
    "blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread "
    "localMemoryTotal gridId graphNodeId graphId",
    MEMCPY: _ACTIVITY + "bytes copyKind srcKind dstKind srcDeviceId dstDeviceId graphNodeId",
    MEMSET: _ACTIVITY + "value bytes graphNodeId memKind graphId",
    RUNTIME: "start end eventClass globalTid correlationId nameId returnValue callchainId",
    NVTX: "start end eventType rangeId category color text globalTid endGlobalTid textId domainId "
    "uint64Value jsonText binaryData",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "GPU_METRICS": "rawTimestamp timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName metricId metricName",
    "META_DATA_EXPORT": "name value",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_GPU": "vmId id name busLocation totalMemory uuid cuDevice",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "PROCESSES": "globalPid pid name",
    "ThreadNames": "nameId priority globalTid",
}
_TEXT = {
    *("text", "name", "utcTime", "localTime", "busLocation", "uuid", "jsonText", "binaryData"),
    *("typeName", "metricName"),
}
_TEXT_VALUES = ("StringIds", "META_DATA_EXPORT", "META_DATA_CAPTURE")
_ABOUT = {
    "META_DATA_EXPORT": {
        "EXPORT_PRODUCT_VERSION": "2026.1.1.204",
        "EXPORT_SCHEMA_VERSION": "3.24.14",
        "EXPORT_PARAM_TIME_NORMALIZE": "false",
        "EXPORT_PARAM_TIME_SHIFT": "0",
    },
    "META_DATA_CAPTURE": {"CUDA_GRAPH_TRACE_OPTIONS:MODE": "Node"},
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
    usual: dict[str, Any] = {"start": ts, "end": ts + dur, "deviceId": 0, "contextId": 1}
    usual |= {"streamId": 7, "correlationId": correlation, "globalPid": global_id(pid)}
    return Row(KERNEL, usual | {"demangledName": name, "shortName": name} | values)


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
    usual = {"start": ts, "end": ts + dur, "eventClass": 0, "globalTid": global_id(pid, pid)}
    about = {"correlationId": correlation, "returnValue": 0, "nameId": name}
    return Row(RUNTIME, usual | about | values)


def nvtx(text: str, *, ts: int, dur: int, pid: int = PID, **values: Any) -> Row:
    """A range that was pushed and popped on the main thread."""
    usual = {"start": ts, "end": ts + dur, "eventType": PUSH_POP, "domainId": 0}
    return Row(NVTX, usual | {"text": text, "globalTid": global_id(pid, pid)} | values)


def write(path: Path, *rows: Row, session_ns: int = SESSION_NS, without: str = "") -> Path:
    """Writes an export with all tables of COLUMNS, or all but one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strings: dict[str, int] = {}
    about = [
        Row(table, {"name": name, "value": value})
        for table, options in _ABOUT.items()
        for name, value in options.items()
    ]
    start = Row("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": session_ns})
    with closing(sqlite3.connect(path)) as con, con:
        for table, columns in COLUMNS.items():
            texts = _TEXT | ({"value"} if table in _TEXT_VALUES else set())
            declared = (f'"{c}" {"TEXT" if c in texts else "INTEGER"}' for c in columns.split())
            con.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
        for table, values in (*about, start, *rows):
            numbers = [_number(strings, name, value) for name, value in values.items()]
            names = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join("?" * len(values))
            con.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", numbers)
        if without:
            con.execute(f"DROP TABLE {without}")
        listed = [(number, text) for text, number in strings.items()]
        con.executemany("INSERT OR REPLACE INTO StringIds VALUES (?, ?)", listed)
    return path


def _number(strings: dict[str, int], column: str, value: Any) -> Any:
    if isinstance(value, str) and column not in _TEXT and column.endswith(_OF_TEXTS):
        return strings.setdefault(value, len(strings) + 1)
    return value
