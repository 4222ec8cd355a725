"""Joins the rows of kernel_details.csv to the kernels of the trace, as arguments of theirs."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceql.readers.dialects.ascend.vocabulary import Argument, Category
from traceql.readers.formats.ascend.events import AscendEvents
from traceql.readers.formats.ascend.side_files import Row, SideFiles
from traceql.readers.formats.ascend.times import ns_of_us

_FILE = "kernel_details.csv"
# Columns by the names that versions gave them, and the arguments that they become.
_COLUMNS = {
    Argument.TYPE: ("Type",),
    Argument.CORE: ("Accelerator Core",),
    Argument.BLOCK_DIM: ("Block Dim", "Block Num"),
    Argument.INPUT_SHAPES: ("Input Shapes",),
    Argument.INPUT_TYPES: ("Input Data Types",),
    Argument.OUTPUT_SHAPES: ("Output Shapes",),
    Argument.OUTPUT_TYPES: ("Output Data Types",),
}
_NAME, _START = "Name", ("Start Time(us)", "Start Time")
_SHIFTS = (0, -1, 1)  # ns: starts of operations of communication are rounded in another way
_MISSING = frozenset({"", "N/A"})


@dataclass(frozen=True)
class KernelDetails:
    """What the file says of the kernels of the trace.

    Attributes:
        arguments: by the index of the event, as JSON without braces.
        joined: the number of rows that belong to an event.
        rows: the number of rows in the file.
        timed: those of them whose start is a time.
    """

    arguments: Mapping[int, str]
    joined: int
    rows: int
    timed: int


def kernel_details(events: AscendEvents, files: SideFiles) -> KernelDetails:
    """Joins by the start and the name; of several equal ones each gets a row of its own."""
    rows = files.rows(_FILE)
    by_key: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        start = next((row[column] for column in _START if column in row), None)
        if (start_ns := ns_of_us(start)) is not None:
            by_key[start_ns, row.get(_NAME, "")].append(row)
    timed = sum(map(len, by_key.values()))
    arguments = {}
    kernels = events.of(Category.KERNEL, Category.COMMUNICATION, Category.MEMCPY, Category.TASK)
    ts = events.parsed.slices.ts
    for index in np.flatnonzero(kernels).tolist() if by_key else ():
        keys = ((int(ts[index]) + shift, events.names[index]) for shift in _SHIFTS)
        if found := next((by_key[key] for key in keys if by_key.get(key)), None):
            arguments[index] = _arguments(found.pop())
    return KernelDetails(arguments, len(arguments), len(rows), timed)


def _arguments(row: Row) -> str:
    known = {
        argument.value: _value(row[column])
        for argument, columns in _COLUMNS.items()
        for column in columns
        if row.get(column, "") not in _MISSING
    }
    return json.dumps(known, ensure_ascii=False)[1:-1]


def _value(cell: str) -> str | int:
    """The cell as a number if it is one; shapes without the quotes around them."""
    return int(cell) if cell.isdecimal() and len(cell) < 19 else cell.strip('"')


def with_arguments(texts: Sequence[str | None], added: Mapping[int, str]) -> list[str | None]:
    """JSON objects, to some of which members are added, at the end."""
    found = list(texts)
    for index, members in added.items():
        text = (found[index] or "{}").rstrip()
        if members and text.endswith("}"):
            inside = text[:-1].rstrip()
            found[index] = inside + ("" if inside.endswith("{") else ", ") + members + "}"
    return found
