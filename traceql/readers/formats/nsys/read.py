"""Reads an export of Nsight Systems: a set of tables for each rank in it."""

from collections.abc import Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traceql.errors import NotATrace, TraceCorrupt, TraceqlError
from traceql.readers import feed
from traceql.readers.dialects.nsys.vocabulary import Metadata
from traceql.readers.flows import NO_FLOWS
from traceql.readers.formats.nsys.ahead import Ahead, reading_ahead
from traceql.readers.formats.nsys.converted import converted
from traceql.readers.formats.nsys.event_tables import EVENT_TABLES
from traceql.readers.formats.nsys.export import Export, opened
from traceql.readers.formats.nsys.job import metadata
from traceql.readers.formats.nsys.processes import RankPart, machine_of, pid_of
from traceql.readers.formats.nsys.rank_events import RankEvents
from traceql.readers.formats.nsys.rank_tables import rank_tables
from traceql.readers.formats.nsys.recording import Recording
from traceql.readers.formats.nsys.track_numbers import TrackNumbers
from traceql.readers.formats.nsys.window_rows import window_rows
from traceql.readers.formats.nsys.windows import PROCESS_BYTES, WHOLE
from traceql.readers.sqlite_file import is_compressed
from traceql.readers.tables import TraceTables
from traceql.readers.timeline import complete_timeline


def read_export(path: Path) -> Iterator[TraceTables]:
    """The tables of each rank, which is a process and one of its GPUs.

    Raises:
        TraceCorrupt: the file is damaged, or another SQLite database.
    """
    with _file(path) as (_, export):
        yield from _tables(Recording(export), None)


def read_in_processes(
    path: Path, folder: Path, memory_bytes: int, processes: int
) -> Iterator[TraceTables]:
    """The same, with windows of large ranks read by processes of their own.

    Args:
        folder: where they may write.
        memory_bytes: how much this process and they may use.
        processes: how many there may be.

    Raises:
        TraceCorrupt: the file is damaged, or another SQLite database.
        TraceqlError: one of the processes was ended from outside.
    """
    with _file(path) as (sqlite, export):
        recording = Recording(export)
        ahead_of_this = min(processes, memory_bytes // PROCESS_BYTES - 1)
        # Each process would unpack a compressed file.
        if processes == 1 or ahead_of_this < 1 or is_compressed(sqlite):
            yield from _tables(recording, None)
            return
        try:
            with reading_ahead(sqlite, recording, folder, ahead_of_this) as ahead:
                yield from _tables(recording, ahead)
        except BrokenProcessPool:
            raise TraceqlError(
                f"{path}: a reading process was killed, perhaps for lack of memory; try --jobs 1"
            ) from None


def _tables(recording: Recording, ahead: Ahead | None) -> Iterator[TraceTables]:
    """The tables of each rank."""
    parts = recording.parts
    for number, (part, about) in enumerate(
        zip(parts, metadata(recording.export, parts, recording.nvtx), strict=True)
    ):
        found = rank_tables(recording.rank(part), is_first=number == 0, ahead=ahead)
        for window in found:
            yield TraceTables(window.tables, about, continues=not window.is_last)


def perfetto_feed(path: Path, base_ns: int, about: Mapping[str, Any]) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`."""
    with _file(path) as (_, export):
        recording = Recording(export)
        part = next(part for part in recording.parts if _is_of(part, about))
        rank = recording.rank(part)
        rows = window_rows(export, rank.nvtx, rank.events, WHOLE)
        found = RankEvents(rank, rows, TrackNumbers(export))
        timeline = complete_timeline(found.ts, found.dur, found.track)
        yield from feed.described_feed(
            timeline,
            feed.Described(found.cat, found.name, found.args),
            NO_FLOWS,
            found.tracks,
            feed.dense_ids(found.tracks, timeline),
            feed.FedTimes(base_ns),
        )


def _is_of(part: RankPart, about: Mapping[str, Any]) -> bool:
    """Whether it is the rank of these metadata; those of older databases tell no machine."""
    if part.process is None:
        return about.get(Metadata.PROCESS) is None
    machine = machine_of(part.process)
    found = about.get(Metadata.MACHINE, machine), about.get(Metadata.PROCESS)
    return (*found, about.get(Metadata.DEVICE)) == (machine, pid_of(part.process), part.device)


def _require_events(export: Export) -> None:
    """Raises NotATrace if no table of events is there; those without rows may be absent."""
    if not any(export.has(table) for table in EVENT_TABLES):
        raise NotATrace(
            "an export of Nsight Systems without a table of kernels, calls, ranges or other events "
            "to load; record with nsys profile -t cuda,nvtx, and export the report again"
        )


@contextmanager
def _file(path: Path) -> Iterator[tuple[Path, Export]]:
    """The SQLite file and the opened export; errors name the file that was given."""
    try:
        with converted(path) as sqlite, opened(sqlite) as export:
            _require_events(export)
            yield sqlite, export
    except TraceCorrupt as error:
        raise type(error)(f"{path}: {error}") from None
