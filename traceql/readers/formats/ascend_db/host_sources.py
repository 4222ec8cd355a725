"""Events of the host: PyTorch's, CANN's, and those that the program marked."""

from collections.abc import Iterator

from traceql.readers.dialects.ascend.vocabulary import Argument, Category
from traceql.readers.formats.ascend_db.enumerated import enumerated
from traceql.readers.formats.ascend_db.event import Place, Source
from traceql.readers.formats.ascend_db.profile import Profile, whole

_PYTORCH, _CANN, _MARKS, _STEPS = "PYTORCH_API", "CANN_API", "MSTX_EVENTS", "STEP_TIME"
# ENUM_API_TYPE
_OP, _QUEUE, _FRAME, _MSTX = 50001, 50002, 50003, 50004
_LEVELS = {
    20000: Category.ACL,
    15000: Category.MODEL,
    10000: Category.NODE,
    5500: Category.COMMUNICATION_CALL,
    5000: Category.RUNTIME,
    _MSTX: Category.MSTX,
}
_PUSH_POP, _START_END = 1, 2  # ENUM_MSTX_EVENT_TYPE; the others are marks
_NO_CONNECTION = 4_000_000_000  # this and higher numbers stand for none


def host_sources(profile: Profile) -> Iterator[Source]:
    """The kinds of events of the host.

    Raises:
        TraceCorrupt: a table has rows, but not the columns without which they cannot be read.
    """
    for table in (_PYTORCH, _CANN, _MARKS, _STEPS):
        if profile.has(table):
            profile.require(table, "startNs", "endNs")
    if profile.has(_PYTORCH, "startNs", "endNs"):
        yield _pytorch(profile)
    if profile.has(_CANN, "startNs", "endNs"):
        yield _cann(profile)
    if profile.has(_MARKS, "startNs", "endNs"):
        yield _ranges(profile)
    if profile.has(_STEPS, "id", "startNs", "endNs"):
        yield _steps(profile)


def is_mark(profile: Profile) -> str:
    """SQL that chooses the marks of a program, which have no duration."""
    kind = profile.whole(_MARKS, "eventType")
    return f"COALESCE({kind}, 0) NOT IN ({_PUSH_POP}, {_START_END})"


def connection(value: str) -> str:
    """SQL of a connection; NULL where there is none."""
    return f"CASE WHEN typeof({value}) = 'integer' AND {value} < {_NO_CONNECTION} THEN {value} END"


def pid_of(global_tid: str) -> str:
    """SQL of the process of a globalTid: its high 32 bits."""
    return f"({whole(global_tid)}) >> 32"


def tid_of(global_tid: str) -> str:
    """SQL of the thread of a globalTid: its low 32 bits."""
    return f"({whole(global_tid)}) & 4294967295"


def _pytorch(profile: Profile) -> Source:
    kind, name = profile.whole(_PYTORCH, "type"), profile.text(_PYTORCH, "name")
    shapes, types = "inputShapes", "inputDtypes"
    if has_swapped_inputs(profile):
        shapes, types = types, shapes
    return Source(
        _PYTORCH,
        _PYTORCH,
        f"CASE {kind} "
        f"WHEN {_OP} THEN CASE WHEN is_annotation({name}) THEN '{Category.ANNOTATION}' "
        f"ELSE '{Category.OPERATOR}' END "
        f"WHEN {_QUEUE} THEN CASE WHEN {name} LIKE 'Dequeue%' THEN '{Category.DEQUEUE}' "
        f"ELSE '{Category.ENQUEUE}' END "
        f"WHEN {_FRAME} THEN '{Category.FRAME}' WHEN {_MSTX} THEN '{Category.MSTX}' "
        f"ELSE '{Category.OTHER}' END",
        name,
        f"{_PYTORCH}.startNs",
        f"{_PYTORCH}.endNs",
        Place.PYTHON,
        columns=_thread(profile, _PYTORCH)
        | {"connection": profile.whole(_PYTORCH, "connectionId")},
        args={
            "Sequence number": profile.whole(_PYTORCH, "sequenceNumber"),
            "Fwd thread id": profile.whole(_PYTORCH, "fwdThreadId"),
            "Input Dims": profile.quoted(_PYTORCH, shapes),
            "Input type": profile.quoted(_PYTORCH, types),
            "Call stack": f"stack({profile.whole(_PYTORCH, 'callchainId')})",
        },
    )


def has_swapped_inputs(profile: Profile) -> bool:
    """Whether the column of shapes has the types: torch_npu of early 2025 mixed them up."""
    if not profile.has(_PYTORCH, "inputShapes", "inputDtypes"):
        return False
    rows = profile.rows(
        f"SELECT SUM({profile.text(_PYTORCH, 'inputShapes')} GLOB '*[a-zA-Z]*'), "
        f"SUM({profile.text(_PYTORCH, 'inputDtypes')} GLOB '*[a-zA-Z]*') FROM {_PYTORCH}"
    )
    in_shapes, in_types = rows[0]
    return (in_shapes or 0) > (in_types or 0)


def _cann(profile: Profile) -> Source:
    kind = profile.whole(_CANN, "type")
    cases = " ".join(f"WHEN {number} THEN '{cat}'" for number, cat in _LEVELS.items())
    joined = connection(f"{_CANN}.connectionId") if profile.has(_CANN, "connectionId") else "NULL"
    level = enumerated(profile, "ENUM_API_TYPE", _CANN, "type")
    return Source(
        _CANN,
        _CANN,
        f"CASE {kind} {cases} ELSE '{Category.CALL}' END",
        profile.text(_CANN, "name"),
        f"{_CANN}.startNs",
        f"{_CANN}.endNs",
        Place.CANN,
        columns=_thread(profile, _CANN) | {"connection": joined},
        args={Argument.LEVEL: level, Argument.CONNECTION: joined},
    )


def _ranges(profile: Profile) -> Source:
    joined = connection(f"{_MARKS}.connectionId") if profile.has(_MARKS, "connectionId") else "NULL"
    return Source(
        _MARKS,
        _MARKS,
        f"'{Category.MSTX}'",
        profile.text(_MARKS, "message"),
        f"{_MARKS}.startNs",
        f"{_MARKS}.endNs",
        Place.RANGES,
        columns=_thread(profile, _MARKS) | {"connection": joined},
        args={
            "domain": profile.quoted(_MARKS, "domainId"),
            Argument.CONNECTION: joined,
        },
        where=f"NOT ({is_mark(profile)})",
    )


def _steps(profile: Profile) -> Source:
    """Steps that PyTorch's own events do not have; usually they have all of them."""
    known = "FALSE"
    if profile.has(_PYTORCH, "startNs", "name"):
        known = (
            f"EXISTS (SELECT 1 FROM {_PYTORCH} AS known "
            f"WHERE CAST(known.startNs AS INTEGER) = {_STEPS}.startNs "
            f"AND text({whole('known.name')}) = 'ProfilerStep#' || {_STEPS}.id)"
        )
    return Source(
        _STEPS,
        _STEPS,
        f"'{Category.ANNOTATION}'",
        f"'ProfilerStep#' || {_STEPS}.id",
        f"{_STEPS}.startNs",
        f"{_STEPS}.endNs",
        Place.RANGES,
        where=f"NOT {known}",
    )


def _thread(profile: Profile, table: str) -> dict[str, str]:
    if not profile.has(table, "globalTid"):
        return {}
    return {"pid": pid_of(f"{table}.globalTid"), "tid": tid_of(f"{table}.globalTid")}
