"""Parses a large file in several processes, each of which takes a range of its bytes."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto.streaming.ranges import Range, ranges
from traceql.readers.formats.kineto.streaming.scratch import Scratch
from traceql.readers.formats.kineto.streaming.sections import Sections, sections

Int64s = npt.NDArray[np.int64]


def sections_by_range(path: Path, scratch: Scratch, processes: int) -> Sections | None:
    """The events of a file, parsed by so many processes at most.

    None if it can only be read as a whole: it is small, compressed, or damaged, or a range does not
    begin where an event begins.
    """
    parts = ranges(path, processes)
    if not parts:
        return None
    folders = [scratch.folder_for(f"range{number}") for number in range(len(parts))]
    with ProcessPoolExecutor(len(parts), get_context("spawn")) as pool:
        jobs = [pool.submit(_parsed, path, *one) for one in zip(parts, folders, strict=True)]
        try:
            return _joined([job.result() for job in jobs], scratch)
        except TraceCorrupt:
            return None


def _parsed(path: Path, part: Range, folder: Path) -> Sections:
    """The events of a range; this runs in a process of its own."""
    return sections(path, Scratch(folder, memory_bytes=0), part.texts(path))


def _joined(parts: Sequence[Sections], scratch: Scratch) -> Sections:
    """The events of all ranges, with numbers as if one process had read them."""
    whole = Sections(scratch)
    for part in parts:
        whole.metadata |= part.metadata
        tracks = whole.tracks.merged(part.tracks)
        family = whole.families.of(list(part.families))
        place = whole.end_places.of(list(part.end_places))
        slices, ends = sum(whole.slices), whole.ends
        scratch.adopt(
            part.scratch.files,
            {
                "slice": partial(_mapped, track=tracks),
                "instant": partial(_mapped, track=tracks),
                "span": partial(_mapped, track=tracks, number=slices),
                "activity": partial(_mapped, index=slices),
                "end": partial(_mapped, number=ends, family=family, place=place),
            },
        )
        whole.include(part)
    return whole


def _mapped(rows: pa.Table, **columns: Int64s | int) -> pa.Table:
    """Rows with other numbers: of each column, what an array has at that place, or a sum."""
    for name, change in columns.items():
        values = rows[name].to_numpy()
        numbers = values + change if isinstance(change, int) else change[values]
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(numbers))
    return rows
