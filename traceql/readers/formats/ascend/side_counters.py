"""Samples in the CSV files beside a trace: memory in use, and the profiler's sums of each step."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from traceql.readers.dialects.ascend.vocabulary import Category
from traceql.readers.formats.ascend.events import AscendEvents
from traceql.readers.formats.ascend.side_files import Row, SideFiles
from traceql.readers.formats.ascend.times import ns_of_us
from traceql.readers.tables import COUNTER, NAME
from traceql.readers.tracks import Track

_MEMORY, _MODULES, STEPS = "memory_record.csv", "npu_module_mem.csv", "step_trace_time.csv"
_AT, _MB, _US = "Timestamp(us)", "(MB)", "us"
_STEP = "Step"
_WORDS = frozenset({"Device_id", _STEP})
_MISSING = frozenset({"", "N/A"})
_NEAR_NS = 3_600_000_000_000
Sample = tuple[str, str, int, float]  # name, unit, ns, value


def side_counters(events: AscendEvents, files: SideFiles) -> pa.Table:
    """The samples; their track is one of their own, which is added to the events' tracks.

    A sample that is hours away from the events has a wrong time and is left out.
    """
    every = [*_memory(files, _MEMORY), *_memory(files, _MODULES), *_steps(events, files)]
    first, last = _extent(events)
    found = [one for one in every if first - _NEAR_NS < one[2] < last + _NEAR_NS]
    if not found:
        return COUNTER.empty_table()
    number = len(events.tracks)
    events.tracks.append(Track("files beside the trace", None, "files beside the trace"))
    columns = [
        pa.array([name for name, *_ in found], pa.large_string()).cast(NAME),
        pa.array([unit for _, unit, *_ in found], pa.large_string()).cast(NAME),
        pa.array([ts for *_, ts, _ in found], pa.int64()),
        pa.array([value for *_, value in found], pa.float64()),
        pa.array(np.full(len(found), number)),
    ]
    return pa.table(columns, schema=COUNTER)


def side_count(files: SideFiles) -> int:
    """The number of samples, counted by the cells that are not empty."""
    cells = 0
    for file in (_MEMORY, _MODULES, STEPS):
        for row in files.rows(file):
            names = row if file == STEPS else [name for name in row if name.endswith(_MB)]
            cells += sum(row[name] not in _MISSING for name in names if name not in _WORDS)
    return cells


def step_rows(files: SideFiles) -> list[dict[str, float]]:
    """The sums of each step, us, by their names; the number of the step too, if there is one."""
    return [
        {name: value for name, cell in row.items() if (value := _number(cell)) is not None}
        for row in files.rows(STEPS)
    ]


def _memory(files: SideFiles, file: str) -> Iterator[Sample]:
    """What each component had at each time. Two files have the same components."""
    for row in files.rows(file):
        ts = ns_of_us(row.get(_AT))
        for column, cell in row.items():
            value = _number(cell)
            if column.endswith(_MB) and value is not None and ts is not None:
                name = f"{file} {_component(row)} {column.removesuffix(_MB)}"
                yield name, "MB", ts, value


def _extent(events: AscendEvents) -> tuple[int, int]:
    slices = events.parsed.slices
    if not len(slices):
        return 0, 0
    return int(slices.ts.min()), int((slices.ts + slices.dur).max())


def _component(row: Row) -> str:
    return row.get("Component") or "memory"


def _steps(events: AscendEvents, files: SideFiles) -> Iterator[Sample]:
    """The sums of each step, at the start of the step, else at that of the trace."""
    slices = events.parsed.slices
    if not len(slices):
        return
    begun = {
        events.names[index]: int(slices.ts[index])
        for index in np.flatnonzero(events.of(Category.ANNOTATION)).tolist()
    }
    for row in step_rows(files):
        number = row.get(_STEP)
        named = None if number is None else begun.get(f"ProfilerStep#{int(number)}")
        ts = int(slices.ts.min()) if named is None else named
        for name, value in row.items():
            if name not in _WORDS:
                yield f"{STEPS} {name}", _US, ts, value


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
