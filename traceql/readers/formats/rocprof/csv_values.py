"""What columns of rocprofv3's CSV files mean."""

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from traceql.readers.formats.rocprof.columns import json_text
from traceql.readers.formats.rocprof.csv_table import TIMES, CsvTable
from traceql.readers.formats.rocprof.recording import ITSELF

# Numbers that become arguments of a kernel, as the column and as the other forms call them.
_NUMBERS = {
    "dispatch_id": "dispatch_id",
    "queue_id": "queue_id",
    "kernel_id": "kernel_id",
    "private_segment_size": "private_segment_size",
    "scratch_size": "private_segment_size",
    "group_segment_size": "group_segment_size",
    "lds_block_size": "group_segment_size",
    "vgpr_count": "arch_vgpr_count",
    "accum_vgpr_count": "accum_vgpr_count",
    "sgpr_count": "sgpr_count",
}


def usual(table: CsvTable, place: int = ITSELF) -> dict[str, Any]:
    """The columns that all files of records have."""
    start, end = (table.integer(name) for name in TIMES)
    correlation = table.integer("correlation_id")
    known = None if correlation is None else pc.if_else(pc.equal(correlation, 0), None, correlation)
    return {
        "ts": start,
        "dur": pc.subtract(end, start),
        "thread": table.integer("thread_id"),
        "place": place,
        "correlation": known,
    }


def arguments(table: CsvTable) -> list[str | None]:
    found = {
        word: listed(numbers)
        for name, word in _NUMBERS.items()
        if (numbers := table.integer(name)) is not None
    }
    return [
        json_text(dict(zip(found, row, strict=True))) for row in zip(*found.values(), strict=True)
    ] or [None] * len(table)


def listed(column: Any) -> Sequence[Any]:
    values: Sequence[Any] = column.to_pylist()
    return values


def texts(table: CsvTable, name: str) -> Sequence[str | None]:
    """A column; None in each row if the file does not have it."""
    column = table.text(name)
    return [None] * len(table) if column is None else listed(column)


def integers(table: CsvTable, name: str) -> Sequence[int | None]:
    """A column of integers, like `texts`."""
    column = table.integer(name)
    return [None] * len(table) if column is None else listed(column)
