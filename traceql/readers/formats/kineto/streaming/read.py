"""Reads a JSON trace of any size in bounded memory, without the trace processor.

The events are parsed once, in sections, which are written to disk. Slices are sorted by track and
time to find their parents, and flow ends by flow to find arrows: in memory if they fit, otherwise
on disk by DuckDB.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.arguments import int64_column, whole_numbers
from traceql.readers.device_activities import DeviceActivities
from traceql.readers.formats.kineto.ledger import checks, repair_checks
from traceql.readers.formats.kineto.streaming.nested import (
    finishes,
    flows,
    nest,
    places_of_slices,
)
from traceql.readers.formats.kineto.streaming.scratch import Scratch
from traceql.readers.formats.kineto.streaming.sections import (
    Sections,
    sections,
    sections_by_range,
    sections_of_ranks,
)
from traceql.readers.tables import (
    COUNTER,
    INSTANT,
    SCHEMAS,
    SLICE,
    Remark,
    TraceTables,
    remark_table,
)
from traceql.readers.tracks import Track, track_table

_PROCESS_BYTES = 300 << 20
_EMPTY = {name: schema.empty_table() for name, schema in SCHEMAS.items()}


def stream_kineto(
    path: Path, *, folder: Path, memory_bytes: int, processes: int = 1
) -> Iterator[TraceTables]:
    """The tables of a JSON trace of PyTorch's profiler, section by section.

    Args:
        folder: for temporary files of about the size of the JSON, which are removed.
        memory_bytes: the approximate memory; half of it is for tables and for sorting.
        processes: the number of processes that parse the file; each needs about 300 MB.

    Raises:
        TraceCorrupt: the file is not a trace, is damaged, or has events without a time.
    """
    with (
        TemporaryDirectory(dir=folder) as name,
        closing(Scratch(Path(name), memory_bytes=memory_bytes // 2)) as scratch,
    ):
        found = _parsed(path, scratch, min(processes, memory_bytes // _PROCESS_BYTES))
        try:
            ranks = found.ranks()
        except TraceCorrupt as error:
            raise type(error)(f"{path}: {error}") from None
        if not ranks:
            yield from _tables(found)
            return
    with TemporaryDirectory(dir=folder) as name, ExitStack() as scratches:
        opened = []
        for number in range(len(ranks)):
            own = Path(name) / str(number)
            own.mkdir()
            scratch = Scratch(own, memory_bytes=memory_bytes // 2 // len(ranks))
            opened.append(scratches.enter_context(closing(scratch)))
        for found in sections_of_ranks(path, ranks, opened):
            yield from _tables(found)


def _tables(found: Sections) -> Iterator[TraceTables]:
    """The tables of one rank, section by section."""
    placed = nest(found)
    finished, arrows = finishes(found), 0
    for drawn in flows(found):
        arrows += len(drawn)
        yield TraceTables(_EMPTY | {"flow": drawn}, continues=True)
    samples = [
        found.tracks.placed(part, found.counter_places) for part in found.scratch.take("counter")
    ]
    tracks = found.tracks.named(found.about_tracks)
    devices = DeviceActivities(tracks, lambda: found.host_pids)
    for section in _sections(found, tracks, devices):
        yield TraceTables(_EMPTY | section, continues=True)
    slices = sum(found.slices)
    what = "events whose parent was computed without the trace processor; all events"
    found_checks = checks(
        Remark("nested events", placed.slices, slices, placed.slices == slices, what),
        found.about_tracks,
        slices=slices,
        overlapping=placed.overlapping,
        negative=found.negative,
        arrows=arrows,
        finishes=finished,
        borders=len(found.borders),
        pairs=found.pairs,
    )
    about = {
        "counter": pa.concat_tables([COUNTER.empty_table(), *samples]).combine_chunks(),
        "track": track_table(tracks),
        "count": found.counts.table(),
        "load_check": remark_table(
            [*found_checks, *repair_checks(found.repairs), *devices.remarks()]
        ),
    }
    yield TraceTables(_EMPTY | about, found.metadata)


def _parsed(path: Path, scratch: Scratch, processes: int) -> Sections:
    try:
        found = sections_by_range(path, scratch, processes) if processes > 1 else None
        found = found or sections(path, scratch)
        found.add_pairs()
        found.span.require_fits()
    except TraceCorrupt as error:
        raise type(error)(f"{path}: {error}") from None
    return found


def _sections(
    found: Sections, tracks: Sequence[Track], devices: DeviceActivities
) -> Iterator[dict[str, pa.Table]]:
    pids = int64_column(whole_numbers([track.pid for track in tracks]))
    tids = int64_column(whole_numbers([track.tid for track in tracks]))
    first = 0
    tables = (found.scratch.take(name) for name in ("slice", "activity", "instant"))
    for known, activity, points, (parent, depth) in zip(
        *tables, places_of_slices(found), strict=True
    ):
        more = {
            "index": pa.array(np.arange(first, first + len(known))),
            "parent": parent,
            "depth": depth,
        }
        yield {
            "slice": _with(known, _place(known["track"], pids, tids) | more, SLICE),
            "activity": devices.found(activity, known, first),
            "instant": _with(points, _place(points["track"], pids, tids), INSTANT),
        }
        first += len(known)


def _place(track: pa.ChunkedArray, pids: pa.Array, tids: pa.Array) -> dict[str, pa.Array]:
    return {"pid": pids.take(track), "tid": tids.take(track)}


def _with(known: pa.Table, more: dict[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """A table of the contract, from earlier columns and new ones."""
    return pa.table(
        [more[name] if name in more else known[name] for name in schema.names], schema=schema
    )
