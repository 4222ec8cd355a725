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
NONE = 4_294_967_295

COLUMNS = {
    "STRING_IDS": "id value",
    "META_DATA": "name value",
    "RANK_DEVICE_MAP": "rankId deviceId",
    "NPU_INFO": "id name",
    "ENUM_API_TYPE": "id name",
    "ENUM_HCCL_DATA_TYPE": "id name",
    "ENUM_HCCL_TRANSPORT_TYPE": "id name",
    "ENUM_HCCL_LINK_TYPE": "id name",
    "ENUM_MEMCPY_OPERATION": "id name",
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
    "MSTX_EVENTS": "startNs endNs eventType rangeId category message globalTid endGlobalTid "
    "domainId connectionId",
    "STEP_TIME": "id startNs endNs",
    "AICORE_FREQ": "deviceId timestampNs freq",
    "HBM": "deviceId timestampNs bandwidth hbmId type",
    "NPU_MEM": "type ddr hbm timestampNs deviceId",
    "MEMORY_RECORD": "component timestamp totalAllocated totalReserved totalActive streamPtr "
    "deviceId",
    "OP_MEMORY": "name size allocationTime releaseTime activeReleaseTime duration activeDuration "
    "allocationTotalAllocated allocationTotalReserved allocationTotalActive releaseTotalAllocated "
    "releaseTotalReserved releaseTotalActive streamPtr deviceId",
    "OVERLAP_ANALYSIS": "deviceId startNs endNs type",
}
_TEXTS = frozenset({("META_DATA", "value"), ("STRING_IDS", "value")})
# Declared as in real databases; all other columns have numbers.
_DECLARED_TEXT = frozenset({("PYTORCH_API", "startNs"), ("PYTORCH_API", "endNs")})
_ENUMS = {
    "ENUM_API_TYPE": {20000: "acl", 10000: "node", 5500: "communication", 50001: "op"},
    "ENUM_HCCL_DATA_TYPE": {4: "FP32"},
    "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 2: "LOCAL"},
    "ENUM_HCCL_LINK_TYPE": {1: "HCCS"},
    "ENUM_MEMCPY_OPERATION": {0: "host to device"},
}
_TIMES = frozenset(
    {"startNs", "endNs", "timestampNs", "timestamp", "allocationTime", "releaseTime"}
)


Statement = str | tuple[str, tuple[Any, ...]]


class Row(NamedTuple):
    """A row of a table; times are ns since START_NS, or bad values as they are."""

    table: str
    values: dict[str, Any]


def task(
    kind: str, *, ts: int, dur: int, number: int, connection: int = NONE, **values: Any
) -> Row:
    """A row of table TASK; `number` is its globalTaskId."""
    usual = {
        "startNs": ts,
        "endNs": ts + dur,
        "deviceId": 0,
        "connectionId": connection,
        "globalTaskId": number,
        "globalPid": PID,
        "taskType": kind,
        "contextId": NONE,
        "streamId": 2,
        "taskId": number,
        "modelId": NONE,
    }
    return Row("TASK", usual | values)


def computed(
    name: str, kind: str, *, ts: int, dur: int, number: int, connection: int = NONE, **values: Any
) -> tuple[Row, Row]:
    """A compute task and its description."""
    about = {
        "name": name,
        "globalTaskId": number,
        "blockNum": 8,
        "taskType": "AI_CORE",
        "opType": kind,
        "inputShapes": "2,3;3,4",
        "inputDataTypes": "FLOAT;FLOAT",
    }
    return (
        task("KERNEL_AICORE", ts=ts, dur=dur, number=number, connection=connection, **values),
        Row("COMPUTE_TASK_INFO", about),
    )


def call(name: str, *, ts: int, dur: int, connection: int, kind: int = 10000, **values: Any) -> Row:
    """A call of CANN."""
    usual = {
        "startNs": ts,
        "endNs": ts + dur,
        "type": kind,
        "globalTid": PID << 32 | TID,
        "connectionId": connection,
        "name": name,
    }
    return Row("CANN_API", usual | values)


def event(name: str, *, ts: int, dur: int, kind: int = 50001, **values: Any) -> Row:
    """An event of PyTorch, whose times are texts."""
    usual = {
        "startNs": str(START_NS + ts),
        "endNs": str(START_NS + ts + dur),
        "globalTid": PID << 32 | TID,
        "name": name,
        "type": kind,
    }
    return Row("PYTORCH_API", usual | values)


def operation(
    name: str, parts: Iterable[tuple[str, int, int, int]], *, ts: int, dur: int, op: int
) -> list[Row]:
    """An operation of communication.

    Args:
        parts: the name, start, duration and partner of each of its parts.
    """
    whole = {
        "opName": name,
        "startNs": ts,
        "endNs": ts + dur,
        "connectionId": 1000 + op,
        "groupName": "group",
        "opId": op,
        "dataType": 4,
        "algType": "MESH-RING",
        "count": 1024,
        "opType": "hcom_allReduce_",
        "deviceId": 0,
    }
    rows = [Row("COMMUNICATION_OP", whole)]
    for place, (kind, start, length, partner) in enumerate(parts):
        number = 10_000 * op + place
        about = {
            "name": name,
            "globalTaskId": number,
            "taskType": kind,
            "planeId": place,
            "groupName": "group",
            "srcRank": 0,
            "dstRank": partner,
            "transportType": 0,
            "size": 4096,
            "dataType": 4,
            "linkType": 1,
            "opId": op,
        }
        rows += [
            task("SDMA", ts=start, dur=length, number=number, connection=1000 + op, streamId=4),
            Row("COMMUNICATION_TASK_INFO", about),
        ]
    return rows


def write(path: Path, *rows: Row, rank: int | None = 0, then: Iterable[Statement] = ()) -> Path:
    """Writes a database with all tables of COLUMNS, after these statements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strings: dict[str, int] = {}
    about = [
        *(
            Row(table, {"id": k, "name": v})
            for table, names in _ENUMS.items()
            for k, v in names.items()
        ),
        Row("META_DATA", {"name": "SCHEMA_VERSION", "value": "1.2.0"}),
        Row("NPU_INFO", {"id": 0, "name": "Ascend910B"}),
    ]
    if rank is not None:
        about.append(Row("RANK_DEVICE_MAP", {"rankId": rank, "deviceId": 0}))
    with closing(sqlite3.connect(":memory:")) as con:
        for table, columns in COLUMNS.items():
            declared = (_declared(table, column) for column in columns.split())
            con.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
        for row in (*about, *rows):
            _insert(con, row, strings)
        con.executemany(
            "INSERT INTO STRING_IDS VALUES (?, ?)", [(n, text) for text, n in strings.items()]
        )
        for one in then:
            con.execute(*([one] if isinstance(one, str) else one))
        con.commit()
        path.write_bytes(con.serialize())
    return path


def _declared(table: str, column: str) -> str:
    is_text = (table, column) in _TEXTS | _DECLARED_TEXT or table.startswith("ENUM_")
    return f'"{column}" {"TEXT" if is_text and column != "id" else "INTEGER"}'


def _insert(con: sqlite3.Connection, row: Row, strings: dict[str, int]) -> None:
    values = {column: _value(row, column, given, strings) for column, given in row.values.items()}
    names = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join("?" * len(values))
    con.execute(f"INSERT INTO {row.table} ({names}) VALUES ({marks})", [*values.values()])


def _value(row: Row, column: str, given: Any, strings: dict[str, int]) -> Any:
    if column in _TIMES:
        return START_NS + given if isinstance(given, int) else given
    is_named = row.table.startswith("ENUM_") or row.table in ("META_DATA", "NPU_INFO")
    if isinstance(given, str) and not is_named:
        return strings.setdefault(given, len(strings) + 1)
    return given
