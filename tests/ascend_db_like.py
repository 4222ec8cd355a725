"""Databases as Ascend's profiler writes them, in words.

`write(path, *computed("MatMulV2", "MatMulV2", ts=20, dur=5, connection=7))` is a database of one
device. Times are ns since `START_NS`; texts in columns of numbers become ids of STRING_IDS.
Columns may be NULL that never are in a real database, so that tests can damage it.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

START_NS = 1_736_410_576_000_000_000  # Unix time
PID, TID = 100, 101
THREAD = PID << 32 | TID
NONE = 4_294_967_295

COLUMNS = {
    "STRING_IDS": "id value",
    "META_DATA": "name value",
    "RANK_DEVICE_MAP": "rankId deviceId",
    **dict.fromkeys(("NPU_INFO", "ENUM_API_TYPE", "ENUM_MEMCPY_OPERATION"), "id name"),
    **{f"ENUM_HCCL_{name}_TYPE": "id name" for name in ("DATA", "TRANSPORT", "LINK")},
    "TASK": "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId "
    "streamId taskId modelId",
    "COMPUTE_TASK_INFO": "name globalTaskId blockNum mixBlockNum taskType opType inputFormats "
    "inputDataTypes inputShapes outputFormats outputDataTypes outputShapes attrInfo opState",
    "MEMCPY_INFO": "globalTaskId size memcpyOperation",
    "COMMUNICATION_OP": "opName startNs endNs connectionId groupName opId relay retry dataType "
    "algType count opType deviceId",
    "COMMUNICATION_TASK_INFO": "name globalTaskId taskType planeId groupName notifyId rdmaType "
    "srcRank dstRank transportType size dataType linkType opId",
    "CANN_API": "startNs endNs type globalTid connectionId name",
    "PYTORCH_API": "startNs endNs globalTid connectionId name sequenceNumber fwdThreadId "
    "inputDtypes inputShapes callchainId type",
    "CONNECTION_IDS": "id connectionId",
    "MSTX_EVENTS": "startNs endNs eventType message globalTid rangeId category endGlobalTid "
    "domainId connectionId",
    "STEP_TIME": "id startNs endNs",
    "AICORE_FREQ": "deviceId timestampNs freq",
    "HBM": "deviceId timestampNs bandwidth hbmId type",
    "NPU_MEM": "type ddr hbm timestampNs deviceId",
    "MEMORY_RECORD": "component timestamp totalAllocated totalReserved totalActive streamPtr "
    "deviceId",
    "OP_MEMORY": "name size allocationTime deviceId streamPtr releaseTime activeReleaseTime "
    "allocationTotalAllocated allocationTotalReserved allocationTotalActive releaseTotalAllocated "
    "releaseTotalReserved releaseTotalActive",
    "OVERLAP_ANALYSIS": "deviceId startNs endNs type",
}
_WORDS = frozenset({"STRING_IDS", "META_DATA", "NPU_INFO", *(n for n in COLUMNS if "ENUM" in n)})
_TIMES = frozenset(
    {"startNs", "endNs", "timestampNs", "timestamp", "allocationTime", "releaseTime"}
)


class Row(NamedTuple):
    """A row of a table; times are ns since START_NS, or bad values as they are."""

    table: str
    values: dict[str, Any]


def row(table: str, *values: Any, **more: Any) -> Row:
    """The values of the first columns of a table, and others by name."""
    return Row(table, dict(zip(COLUMNS[table].split(), values, strict=False)) | more)


_USUAL = (
    row("META_DATA", "SCHEMA_VERSION", "1.2.0"),
    row("NPU_INFO", 0, "Ascend910B"),
    *(row("ENUM_API_TYPE", *one) for one in ((20000, "acl"), (10000, "node"), (50001, "op"))),
    row("ENUM_HCCL_DATA_TYPE", 4, "FP32"),
    row("ENUM_HCCL_TRANSPORT_TYPE", 0, "SDMA"),
    row("ENUM_HCCL_LINK_TYPE", 1, "HCCS"),
    row("ENUM_MEMCPY_OPERATION", 0, "host to device"),
)


def task(kind: str, *, ts: int, dur: int, number: int, connection: int = NONE, **more: Any) -> Row:
    """A row of table TASK; `number` is its globalTaskId."""
    values = (ts, ts + dur, 0, connection, number, PID, kind, NONE, 2, number, NONE)
    return row("TASK", *values, **more)


def computed(name: str, kind: str, *, number: int, **about_task: Any) -> tuple[Row, Row]:
    """A compute task and its description."""
    more = {"inputShapes": "2,3;3,4", "inputDataTypes": "FLOAT;FLOAT"}
    return (
        task("KERNEL_AICORE", number=number, **about_task),
        row("COMPUTE_TASK_INFO", name, number, 8, None, "AI_CORE", kind, **more),
    )


def call(name: str, *, ts: int, dur: int, connection: int, kind: int = 10000, **more: Any) -> Row:
    """A call of CANN."""
    return row("CANN_API", ts, ts + dur, kind, THREAD, connection, name, **more)


def event(name: str, *, ts: int, dur: int, kind: int = 50001, **more: Any) -> Row:
    """An event of PyTorch, whose times are texts."""
    begin, end = str(START_NS + ts), str(START_NS + ts + dur)
    return row("PYTORCH_API", begin, end, THREAD, **{"name": name, "type": kind} | more)


def operation(
    name: str, parts: Iterable[tuple[str, int, int, int]], *, ts: int, dur: int, op: int
) -> list[Row]:
    """An operation of communication.

    Args:
        parts: the name, start, duration and partner of each of its parts.
    """
    connection, kind = 1000 + op, ("MESH-RING", 1024, "hcom_allReduce_", 0)
    whole = (name, ts, ts + dur, connection, "group", op, None, None, 4, *kind)
    rows = [row("COMMUNICATION_OP", *whole)]
    for place, (called, start, length, partner) in enumerate(parts):
        number = 10_000 * op + place
        about = (name, number, called, place, "group", None, None, 0, partner, 0, 4096, 4, 1, op)
        own = {"number": number, "connection": connection, "streamId": 4}
        rows += [task("SDMA", ts=start, dur=length, **own), row("COMMUNICATION_TASK_INFO", *about)]
    return rows


def write(path: Path, *rows: Row, rank: int | None = 0, then: Iterable[str] = ()) -> Path:
    """Writes a database with all tables of COLUMNS, after these statements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strings: dict[str, int] = {}
    of_rank = [] if rank is None else [row("RANK_DEVICE_MAP", rank, 0)]
    with closing(sqlite3.connect(":memory:")) as con:
        for table, columns in COLUMNS.items():
            con.execute(f"CREATE TABLE {table} ({', '.join(columns.split())})")
        for table, values in (*_USUAL, *of_rank, *rows):
            cells = [_cell(table, column, given, strings) for column, given in values.items()]
            marks = ", ".join("?" * len(cells))
            con.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", cells)
        texts = [(number, text) for text, number in strings.items()]
        con.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", texts)
        for one in then:
            con.execute(one)
        con.commit()
        path.write_bytes(con.serialize())
    return path


def _cell(table: str, column: str, given: Any, strings: dict[str, int]) -> Any:
    if column in _TIMES:
        return START_NS + given if isinstance(given, int) else given
    if isinstance(given, str) and table not in _WORDS:
        return strings.setdefault(given, len(strings) + 1)
    return given
