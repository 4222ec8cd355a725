"""What the ledger has to say about a trace of Ascend."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from traceql.readers.dialects.ascend.vocabulary import EAGER, Category
from traceql.readers.formats.ascend.common_remarks import (
    calls_missing,
    captured_tasks,
    files_beside,
    impossible_sizes,
    owned_parts,
    unknown_tasks,
    waits_of_profiler,
)
from traceql.readers.formats.ascend.events import HARDWARE, AscendEvents
from traceql.readers.formats.ascend.groups import operation_of_parts, operations
from traceql.readers.formats.ascend.kernel_details import KernelDetails
from traceql.readers.formats.ascend.overlap import overlap_remarks
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.kineto.ledger import remarks as of_json
from traceql.readers.nesting import Nesting
from traceql.readers.remarks import Remark

_OF_PROFILER = ("MEM_WAIT_VALUE", "CAPTURE_WAIT")
_TIMES, _TRANSIT, _ELAPSE = "Communication Time Info", "Transit Time(ms)", "Elapse Time(ms)"


def remarks(
    path: Path, events: AscendEvents, files: SideFiles, details: KernelDetails, nested: Nesting
) -> Iterator[Remark]:
    """Those that every JSON trace gets, and those about Ascend."""
    parsed = events.parsed
    yield from of_json(parsed.columns, parsed.slices, parsed.flows, nested)
    yield from overlap_remarks(events, files)
    yield from _tasks(events)
    yield from _communication(events, files)
    if details.rows:
        note = "rows joined to a task of the trace, by start and name; rows in the file"
        if details.timed < details.rows:
            note += f". {details.rows - details.timed:,} rows have a start that is no time"
        if details.timed and not details.joined:
            note += ". None fits: the file is of another recording"
        verdict = True if details.joined == details.rows else None
        yield Remark("kernel_details.csv", details.joined, details.rows, verdict, note)
    yield from files_beside(path, files.damaged)


def _tasks(events: AscendEvents) -> Iterator[Remark]:
    """Of the device's own tasks, how many are in table kernel."""
    tasks = events.on(HARDWARE)
    carried_out = set(events.carried_out.tolist())
    elsewhere = sum(a.task_type is not None for a in events.arguments)
    if elsewhere and not tasks.any():
        yield Remark(
            "no track Ascend Hardware",
            0,
            elsewhere,
            False,
            "tasks loaded as such; events with a type of task. The process of their tracks is not "
            "named Ascend Hardware, so that they do not count as kernels",
        )
    counted = events.of(Category.KERNEL, Category.MEMCPY) & tasks
    yield Remark(
        "tasks of the device",
        int(counted.sum()),
        int(tasks.sum()),
        None,
        "compute tasks and copies, which are in table kernel; all tasks of Ascend Hardware. The "
        "rest are waits, records and parts of communication, whose operations count as a whole",
    )
    types = Counter(
        str(events.arguments[index].task_type or "")
        for index in np.flatnonzero(tasks & events.of(Category.TASK)).tolist()
        if events.parsed.slices.dur[index] > 0 and index not in carried_out
    )
    copies = np.flatnonzero(events.of(Category.MEMCPY)).tolist()
    odd = [i for i in copies if events.arguments[i].size is not None and events.bytes(i) is None]
    yield from impossible_sizes(len(odd), len(copies))
    yield from unknown_tasks(types, int(tasks.sum()))
    waits = np.array([name.startswith(_OF_PROFILER) for name in events.names], np.bool_)
    yield from waits_of_profiler(int((waits & tasks).sum()), int(tasks.sum()))
    captured = np.array([a.model not in (None, EAGER) for a in events.arguments], np.bool_)
    inside = int((captured & counted).sum())
    yield from captured_tasks(inside, int(counted.sum()), copies=" and copies")
    if events.of(Category.KERNEL).any() and not events.on("CANN").any():
        yield calls_missing(" (profiler level 0)")


def _communication(events: AscendEvents, files: SideFiles) -> Iterator[Remark]:
    parts = int(events.of(Category.PLANE).sum())
    if parts:
        yield owned_parts(len(operation_of_parts(events)[0]), parts)
    listed = operations(files)
    own = defaultdict(list)  # groups may have operations of the same name
    for index in _whole(events):
        own[events.names[index]].append(int(events.parsed.slices.dur[index]))
    elapsed = [(name, _ms(content, _ELAPSE)) for name, _, content in listed if name in own]
    agreeing = sum(any(abs(dur - ms * 1e6) <= 1 for dur in own[name]) for name, ms in elapsed)
    if elapsed:
        yield Remark(
            "elapse times in communication.json",
            agreeing,
            len(elapsed),
            agreeing == len(elapsed),
            "operations that last as long in the trace as in communication.json; "
            "operations in both",
        )
    unmeasured = sum(_ms(content, _TRANSIT) == 0 for _, _, content in listed)
    if listed:
        yield Remark(
            "transit times in communication.json",
            len(listed) - unmeasured,
            len(listed),
            None,
            "operations whose Transit Time is above 0; operations in the file. A Transit Time of 0 "
            "means that it was not measured, and Idle Time there can be waiting or moving on "
            "another plane: waiting comes from the planes of the trace",
        )


def _whole(events: AscendEvents) -> list[int]:
    found: list[int] = np.flatnonzero(events.of(Category.COMMUNICATION)).tolist()
    return found


def _ms(content: object, what: str) -> float:
    """One of the times of an operation, ms; 0 if the file does not have it."""
    times = content.get(_TIMES) if isinstance(content, dict) else None
    value = times.get(what) if isinstance(times, dict) else None
    return float(value) if isinstance(value, int | float) else 0.0
