"""Events of the device: tasks, operations of communication and their parts.

Table TASK has a row for each task, and rows that enclose others: one around each operation of
communication and around each task of a mixed kernel. Rows with a description in COMPUTE_TASK_INFO
are compute tasks, whatever their type is; of the others, those that `undescribed` finds.
"""

from collections.abc import Iterator

from traceql.readers.dialects.ascend.vocabulary import Argument, Category
from traceql.readers.formats.ascend_db.enumerated import enumerated
from traceql.readers.formats.ascend_db.event import Place, Source
from traceql.readers.formats.ascend_db.host_sources import connection
from traceql.readers.formats.ascend_db.profile import Profile, whole
from traceql.readers.formats.ascend_db.undescribed import UNDESCRIBED

_TASK, _COMPUTE, _COPY = "TASK", "COMPUTE_TASK_INFO", "MEMCPY_INFO"
_OPERATION, _PART, _OVERLAP = "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "OVERLAP_ANALYSIS"
# Tasks by which the profiler makes the device wait, and end such waits.
OF_PROFILER = ("MEM_WAIT", "MEM_WRITE", "CAPTURE_WAIT", "CAPTURE_RECORD")
_OVERLAP_NAMES = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}


def device_sources(profile: Profile) -> Iterator[Source]:
    """The kinds of events of the device; `find_undescribed` comes before.

    Raises:
        TraceCorrupt: a table has rows, but not the columns without which they cannot be read.
    """
    needed = {
        _TASK: ("startNs", "endNs"),
        _COMPUTE: ("globalTaskId",),
        _OPERATION: ("startNs", "endNs"),
        _PART: ("globalTaskId",),
        _OVERLAP: ("startNs", "endNs", "type"),
    }
    for table, columns in needed.items():
        if profile.has(table):
            profile.require(table, *columns)
    if profile.has(_TASK) and (profile.has(_COMPUTE) or profile.has(_PART)):
        profile.require(_TASK, "globalTaskId")
    if profile.has(_TASK, *needed[_TASK]):
        yield _tasks(profile)
    if profile.has(_OPERATION, *needed[_OPERATION]):
        yield _operations(profile)
    if profile.has(_PART, "globalTaskId") and profile.has(_TASK, *needed[_TASK], "globalTaskId"):
        yield _parts(profile)
    if profile.has(_OVERLAP, *needed[_OVERLAP]):
        yield _overlap(profile)


def _tasks(profile: Profile) -> Source:
    relation, is_described = _TASK, "FALSE"
    if profile.has(_COMPUTE, "globalTaskId") and profile.has(_TASK, "globalTaskId"):
        relation += f" LEFT JOIN {_described(profile, _COMPUTE)} USING (globalTaskId)"
        is_described = f"{_COMPUTE}.globalTaskId IS NOT NULL"
    size = operation = "NULL"
    if profile.has(_COPY, "globalTaskId") and profile.has(_TASK, "globalTaskId"):
        relation += f" LEFT JOIN {_described(profile, _COPY)} USING (globalTaskId)"
        stated = profile.whole(_COPY, "size")
        size = f"CASE WHEN {stated} >= 0 THEN {stated} END"
        operation = enumerated(profile, "ENUM_MEMCPY_OPERATION", _COPY, "memcpyOperation")
    kind = profile.text(_TASK, "taskType")
    name = kind
    if is_described != "FALSE" and profile.has(_COMPUTE, "name"):
        name = f"CASE WHEN {is_described} THEN {profile.text(_COMPUTE, 'name')} ELSE {kind} END"
    joined, stream = _connection(profile, _TASK), profile.whole(_TASK, "streamId")
    args = {
        Argument.TASK_TYPE: profile.quoted(_TASK, "taskType"),
        Argument.MODEL: profile.whole(_TASK, "modelId"),
        Argument.STREAM: stream,
        Argument.TASK: profile.whole(_TASK, "taskId"),
        "Subtask Id": profile.whole(_TASK, "contextId"),
        Argument.CONNECTION: joined,
        Argument.SIZE: size,
        "operation": operation,
    }
    if is_described != "FALSE":
        args |= _compute_args(profile)
    return Source(
        _TASK,
        relation,
        _category(kind, is_described, is_part=_carries_out(profile, name)),
        name,
        f"{_TASK}.startNs",
        f"{_TASK}.endNs",
        Place.HARDWARE,
        columns={
            "pid": _device(profile, _TASK),
            "tid": stream,
            "stream": stream,
            "connection": joined,
            "bytes": size,
        },
        args=args,
    )


def _category(kind: str, is_described: str, *, is_part: str) -> str:
    """SQL of the category of a task."""
    is_compute = f"({is_described} OR {_TASK}.rowid IN (SELECT task_row FROM {UNDESCRIBED}))"
    return (
        f"CASE WHEN {is_compute} AND {is_part} THEN '{Category.TASK}' "
        f"WHEN {is_compute} THEN '{Category.KERNEL}' "
        f"WHEN {kind} = 'MEMCPY_ASYNC' THEN '{Category.MEMCPY}' "
        f"WHEN {_is_event(kind)} THEN '{Category.EVENT}' "
        f"ELSE '{Category.TASK}' END"
    )


def _is_event(kind: str) -> str:
    """SQL of whether a task records an event or waits for one; some are the profiler's own."""
    patterns = ("EVENT_RECORD*", "EVENT_WAIT*", *(f"{what}*" for what in OF_PROFILER))
    return "(" + " OR ".join(f"{kind} GLOB '{pattern}'" for pattern in patterns) + ")"


def _compute_args(profile: Profile) -> dict[str, str]:
    texts = {
        Argument.TYPE: "opType",
        Argument.CORE: "taskType",
        Argument.INPUT_SHAPES: "inputShapes",
        Argument.INPUT_TYPES: "inputDataTypes",
        "Input Formats": "inputFormats",
        Argument.OUTPUT_SHAPES: "outputShapes",
        Argument.OUTPUT_TYPES: "outputDataTypes",
        "Output Formats": "outputFormats",
        "OP State": "opState",
    }
    return {key: f"stated({profile.whole(_COMPUTE, text)})" for key, text in texts.items()} | {
        Argument.BLOCK_DIM: _first(profile, _COMPUTE, "blockDim", "blockNum"),
        "Mix Block Dim": _first(profile, _COMPUTE, "mixBlockDim", "mixBlockNum"),
    }


def _carries_out(profile: Profile, name: str) -> str:
    """SQL of whether a kernel only carries out an operation of communication, which has a row."""
    if not profile.has(_OPERATION, "startNs", "endNs"):
        return "FALSE"
    return (
        f"is_part_kernel({name}) AND EXISTS (SELECT 1 FROM {_OPERATION} AS whole "
        f"WHERE {_TASK}.startNs >= whole.startNs AND {_TASK}.startNs < whole.endNs)"
    )


def _operations(profile: Profile) -> Source:
    relation, stream, model = _OPERATION, "NULL", "NULL"
    device = _device(profile, _OPERATION)
    if (
        profile.has(_PART, "globalTaskId", "opId")
        and profile.has(_TASK, "globalTaskId", "streamId", "deviceId")
        and profile.has(_OPERATION, "opId")
    ):
        relation += (
            f" LEFT JOIN (SELECT opId, MIN({whole('streamId')}) AS streamId, "
            f"MIN({whole('deviceId')}) AS deviceId, "
            f"MIN({whole('modelId') if profile.has(_TASK, 'modelId') else 'NULL'}) AS modelId "
            f"FROM {_PART} JOIN {_TASK} USING (globalTaskId) GROUP BY opId) AS placed USING (opId)"
        )
        stream, model = "placed.streamId", "placed.modelId"
        device = f"COALESCE({device}, placed.deviceId)"
    joined = _connection(profile, _OPERATION)
    only = _only_device(profile)
    return Source(
        _OPERATION,
        relation,
        f"'{Category.COMMUNICATION}'",
        profile.text(_OPERATION, "opName"),
        f"{_OPERATION}.startNs",
        f"{_OPERATION}.endNs",
        Place.GROUP,
        columns={
            "pid": f"COALESCE({device}, {only})",
            "group": profile.whole(_OPERATION, "groupName"),
            "stream": stream,
            "connection": joined,
        },
        args={
            Argument.CONNECTION: joined,
            Argument.OPERATION_MODEL: model,
            Argument.GROUP: profile.quoted(_OPERATION, "groupName"),
            Argument.DATA_TYPE: _data_type(profile, _OPERATION),
            Argument.ALGORITHM: profile.quoted(_OPERATION, "algType"),
            Argument.COUNT: profile.whole(_OPERATION, "count"),
            Argument.RANK_SIZE: profile.whole(_OPERATION, "rankSize"),
            "relay": profile.whole(_OPERATION, "relay"),
            "retry": profile.whole(_OPERATION, "retry"),
        },
    )


def _parts(profile: Profile) -> Source:
    """The parts of the operations, each with the times of its task."""
    kind = profile.text(_PART, "taskType")
    return Source(
        _PART,
        f"{_PART} LEFT JOIN {_described(profile, _TASK)} USING (globalTaskId)",
        f"'{Category.PLANE}'",
        kind,
        f"{_TASK}.startNs",
        f"{_TASK}.endNs",
        Place.PLANE,
        columns={
            "pid": _device(profile, _TASK),
            "tid": profile.whole(_PART, "planeId"),
            "group": profile.whole(_PART, "groupName"),
            "connection": _connection(profile, _TASK),
        },
        args={
            Argument.PART: profile.quoted(_PART, "taskType"),
            Argument.SOURCE_RANK: profile.whole(_PART, "srcRank"),
            Argument.DESTINATION_RANK: profile.whole(_PART, "dstRank"),
            Argument.TRANSPORT: enumerated(
                profile, "ENUM_HCCL_TRANSPORT_TYPE", _PART, "transportType"
            ),
            Argument.PART_SIZE: profile.whole(_PART, "size"),
            Argument.LINK: enumerated(profile, "ENUM_HCCL_LINK_TYPE", _PART, "linkType"),
            "data type": _data_type(profile, _PART),
            "notify_id": profile.whole(_PART, "notifyId"),
            "stream id": profile.whole(_TASK, "streamId"),
            "task id": profile.whole(_TASK, "taskId"),
            Argument.GROUP: profile.quoted(_PART, "groupName"),
            Argument.CONNECTION: _connection(profile, _TASK),
        },
    )


def _overlap(profile: Profile) -> Source:
    kind = whole(f"{_OVERLAP}.type")
    cases = " ".join(f"WHEN {number} THEN '{name}'" for number, name in _OVERLAP_NAMES.items())
    return Source(
        _OVERLAP,
        _OVERLAP,
        f"'{Category.OVERLAP}'",
        f"CASE {kind} {cases} END",
        f"{_OVERLAP}.startNs",
        f"{_OVERLAP}.endNs",
        Place.OVERLAP,
        columns={"pid": _device(profile, _OVERLAP), "tid": kind},
    )


def _described(profile: Profile, table: str) -> str:
    """A table with one row for each task, also where a damaged file has several."""
    if profile.has_key(table, "globalTaskId"):
        return table
    return f"(SELECT * FROM {table} GROUP BY globalTaskId) AS {table}"


def _device(profile: Profile, table: str) -> str:
    return profile.whole(table, "deviceId")


def _only_device(profile: Profile) -> str:
    """The device of all tasks as SQL, for operations whose own table does not tell; else NULL."""
    if not profile.has(_TASK, "deviceId"):
        return "NULL"
    found = profile.rows(f"SELECT DISTINCT deviceId FROM {_TASK} LIMIT 2")
    return str(found[0][0]) if len(found) == 1 and isinstance(found[0][0], int) else "NULL"


def _connection(profile: Profile, table: str) -> str:
    return connection(f"{table}.connectionId") if profile.has(table, "connectionId") else "NULL"


def _first(profile: Profile, table: str, *names: str) -> str:
    """The first of these columns that the table has: they were renamed."""
    return next((profile.whole(table, name) for name in names if profile.has(table, name)), "NULL")


def _data_type(profile: Profile, table: str) -> str:
    return enumerated(profile, "ENUM_HCCL_DATA_TYPE", table, "dataType")
