"""Which GPUs and which threads of an export belong to which rank.

A rank is a process and one of its GPUs. Workers of one server are several processes of one file.
Times of a thread belong to the rank whose GPU it launched most on; processes without a GPU, such as
an API server, are with the first rank.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traceql.errors import TraceCorrupt
from traceql.readers.formats.nsys.counted import counted
from traceql.readers.formats.nsys.event_tables import GPU_TABLES, RUNTIME, THREAD_TABLES
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.terms import column, column_of, or_zero
from traceql.readers.unpacked import ANEW

_KINDS = {RUNTIME: "eventClass", "NVTX_EVENTS": "eventType"}
WORK_TABLES = GPU_TABLES[:4]  # whose activities make a rank
# Of a global thread id, the low 24 bits are the thread, and the next 24 bits the process; a global
# process id has zeros for the thread (NVIDIA's documentation of the SQLite schema).
# Both may be NULL, which is process 0 here.
OF_PROCESS, OF_THREAD = or_zero("globalPid"), or_zero("globalTid")
PID_BITS = 24
_MASK = 0xFFFFFF


def pid_of(global_id: int) -> int:
    """The process id in a globalPid or globalTid."""
    return (global_id >> PID_BITS) & _MASK


def machine_of(global_id: int) -> int:
    """The number of the machine in a globalPid or globalTid; each numbers its own processes."""
    return global_id >> 2 * PID_BITS


def tid_of(global_tid: int) -> int:
    return global_tid & _MASK


@dataclass
class RankPart:
    """What of an export belongs to one rank.

    Attributes:
        process: the globalPid of its process; None if nothing ran on a GPU.
        device: the number of its GPU in the process.
        gpus: the (globalPid, device) pairs whose activities belong to it.
        threads: the globalTids whose events belong to it.
    """

    process: int | None
    device: int | None
    gpus: list[tuple[int, int]] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)


def rank_parts(export: Export) -> list[RankPart]:
    """The ranks of an export, by machine, process and device; one if nothing ran on a GPU."""
    by_table = _gpus(export)
    worked = sorted(set[tuple[int, int]]().union(*(by_table[table] for table in WORK_TABLES)))
    parts = [RankPart(process, device, [(process, device)]) for process, device in worked]
    parts = parts or [RankPart(None, None)]
    by_process: defaultdict[int, list[RankPart]] = defaultdict(list)
    for part in parts:
        if part.process is not None:
            by_process[part.process >> PID_BITS].append(part)
    for gpu in sorted(set[tuple[int, int]]().union(*by_table.values()) - set(worked)):
        by_process.get(gpu[0] >> PID_BITS, parts)[0].gpus.append(gpu)
    busiest = _busiest_device(export, by_process)
    for thread in sorted(_threads(export)):
        of_process = by_process.get(thread >> PID_BITS, parts)
        device = busiest.get(thread)
        owner = next((part for part in of_process if part.device == device), of_process[0])
        owner.threads.append(thread)
    return parts


def _gpus(export: Export) -> Mapping[str, set[tuple[int, int]]]:
    """The process and the device of each GPU that a table has activities of, by table."""
    return {
        table: {
            (process, device)
            for process, device in counted(export, table, OF_PROCESS, column("deviceId"))
            if is_number(table, "globalPid", process) and is_number(table, "deviceId", device)
        }
        if export.has(table, "globalPid", "deviceId")
        else set()
        for table in GPU_TABLES
    }


def _threads(export: Export) -> set[int]:
    return {
        thread
        for table in THREAD_TABLES
        if export.has(table, "globalTid")
        for thread, _ in threads_and_kinds(export, table)
        if is_number(table, "globalTid", thread)
    }


def threads_and_kinds(export: Export, table: str) -> Counter[tuple[Any, Any]]:
    """The number of rows of each thread and kind, which not all tables have."""
    return counted(export, table, OF_THREAD, column_of(export, table, _KINDS.get(table, "")))


def is_number(table: str, column: str, value: object) -> bool:
    """True, because rows of an unknown place would be lost without a word."""
    if type(value) is int:
        return True
    raise TraceCorrupt(
        f"column {column} of table {table} has the value {str(value)[:60]!r}, which is no place of "
        f"an event; {ANEW}"
    )


def _busiest_device(
    export: Export, by_process: Mapping[int, Sequence[RankPart]]
) -> Mapping[int, int]:
    """The device that each thread launched most kernels on, in processes with several devices."""
    several = [process for process, parts in by_process.items() if len(parts) > 1]
    kernels = GPU_TABLES[0]
    if not several or not export.has(kernels) or not export.has(RUNTIME):
        return {}
    launched: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for process in several:
        found = export.rows(
            f"""
            SELECT call.globalTid, kernel.deviceId, COUNT(*)
            FROM {kernels} AS kernel
            JOIN {RUNTIME} AS call
                ON call.correlationId = kernel.correlationId
                AND call.globalTid >> {PID_BITS} = kernel.globalPid >> {PID_BITS}
            WHERE kernel.globalPid >> {PID_BITS} = ?
            GROUP BY 1, 2
            """,
            [process],
        )
        for thread, device, kernels_launched in found:
            launched[thread][device] += kernels_launched
    return {thread: counted.most_common(1)[0][0] for thread, counted in launched.items()}
