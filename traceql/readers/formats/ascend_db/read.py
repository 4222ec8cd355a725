"""Reads a database of Ascend's profiler: the tables of its rank."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceql.errors import TraceCorrupt
from traceql.readers import feed
from traceql.readers.asked_nesting import nesting
from traceql.readers.formats.ascend_db.analysis import analysis_beside
from traceql.readers.formats.ascend_db.job import Job
from traceql.readers.formats.ascend_db.names import EVENTS
from traceql.readers.formats.ascend_db.profile import Profile, opened
from traceql.readers.formats.ascend_db.rank_events import RankEvents
from traceql.readers.formats.ascend_db.remarks import remarks
from traceql.readers.remarks import remark_table
from traceql.readers.tables import TraceTables


def read_profile(path: Path, *, trace_processor: Path | None) -> Iterator[TraceTables]:
    """The tables of the rank that the database is of.

    Raises:
        TraceCorrupt: the file is damaged, has no events, or is another SQLite database.
    """
    with _file(path) as profile:
        analysis = analysis_beside(path)
        found = RankEvents(profile, analysis)
        _require_events(profile, found)
        nested = nesting(found.timeline, found.flows, found.tracks, trace_processor=trace_processor)
        tables = found.tables(nested)
        job = Job(profile, path, analysis)
        tables["load_check"] = remark_table([*job.remarks(), *remarks(profile, found, analysis)])
        yield TraceTables(tables, job.metadata)


def perfetto_feed(path: Path, base_ns: int) -> Iterator[bytes]:
    """The rank as JSON that the trace processor accepts, with times relative to `base_ns`."""
    with _file(path) as profile:
        found = RankEvents(profile)
        yield from feed.described_feed(
            found.timeline,
            feed.Described(found.cat, found.name, found.args),
            found.flows,
            found.tracks,
            feed.dense_ids(found.tracks, found.timeline),
            feed.FedTimes(base_ns),
        )


def _require_events(profile: Profile, found: RankEvents) -> None:
    if len(found.timeline):
        return
    if rows := sum(profile.count(table) for table in EVENTS):
        raise TraceCorrupt(
            f"none of its {rows:,} rows with events has a time; analyse the recording again with "
            "torch_npu.profiler.profiler.analyse, or msprof --export"
        )
    raise TraceCorrupt(
        "has no events: nothing ran while it was recorded, or it was not analysed to the end"
    )


@contextmanager
def _file(path: Path) -> Iterator[Profile]:
    """The opened database; errors name the file."""
    try:
        with opened(path) as profile:
            yield profile
    except TraceCorrupt as error:
        raise type(error)(f"{path}: {error}") from None
