"""Reads a trace of Ascend in text form, with the files beside it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers import feed
from traceql.readers.arguments import int64_column, whole_numbers
from traceql.readers.dialects.ascend.vocabulary import Category, Metadata
from traceql.readers.formats.ascend.job_checks import (
    Statement,
    job_statements,
    run_common,
    set_variables,
    state,
)
from traceql.readers.formats.ascend.layout import WHOLE_AGAIN, is_slice
from traceql.readers.formats.ascend.recognition import is_graph_dump
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.kineto.gathering import times
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.formats.kineto.ledger import remarks, repair_checks
from traceql.readers.formats.kineto.read import KinetoEvents, instant_table, kineto_events
from traceql.readers.nesting import nesting
from traceql.readers.relations import conforming
from traceql.readers.scratch import Scratch, scratch_database
from traceql.readers.tables import FLOW, JSON, NAME, TraceTables, remark_table
from traceql.readers.timeline import COMPLETE
from traceql.readers.tracks import Track, track_table
from traceql.readers.unpacked import REMAKE

_MEMORY_BYTES = 2 << 30


def read_ascend(path: Path, *, trace_processor: Path | None) -> Iterator[TraceTables]:
    """The tables of a rank; of each device, if the file has several.

    Raises:
        NotATrace: the file shows a captured graph, or is a part of a timeline.
        TraceCorrupt: the file is damaged, or has events without a time.
    """
    with _opened(path, None) as file:
        devices, total, loaded = file.devices(), file.activities(), 0
        if not devices:
            yield file.tables(trace_processor)
            return
    for device in devices:
        with _opened(path, device) as file:
            loaded += file.activities()
            more: list[Statement] = [("devices in the file", len(devices), len(devices), None, "")]
            if device is devices[-1]:
                more.append(("kernels of all devices", loaded, total, loaded == total, ""))
            yield file.tables(trace_processor, more)


def perfetto_feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`."""
    with _opened(path, None) as file:
        number = metadata.get(Metadata.DEVICE)
        device = next((one for one in file.devices() if one.number == number), None)
        if device is None:
            yield from file.feed(base_ns)
            return
    with _opened(path, device) as file:
        yield from file.feed(base_ns)


class Device(NamedTuple):
    """The part of one device: its own events, and those of the threads that started its tasks.

    Attributes:
        number: the number of the NPU on its host.
        others: threads (pid and tid) whose events are of other devices.
        processes: processes all of whose threads are.
    """

    number: int
    others: frozenset[tuple[Any, Any]]
    processes: frozenset[Any]

    def kept(self, batches: Iterable[list[Event]]) -> Iterator[list[Event]]:
        """The events without those of other devices."""
        for events in batches:
            yield [
                event
                for event in events
                if event.pid not in self.processes and (event.pid, event.tid) not in self.others
            ]


@contextmanager
def _opened(path: Path, device: Device | None) -> Iterator["_File"]:
    """A file whose events are parsed and have their categories: all, or those of a device."""
    if is_graph_dump(path):
        raise NotATrace(
            f"{path}: the dump of a captured graph, whose times are invented; "
            "load the trace_view.json of the run instead"
        )
    if is_slice(path):
        raise NotATrace(
            f"{path}: one of the slices that msprof cut the timeline of a rank into; {WHOLE_AGAIN}"
        )
    counters: list[Event] = []

    def kept(batches: Iterable[list[Event]]) -> Iterator[list[Event]]:
        """Sets the samples of counters apart; a damaged file is read twice."""
        counters.clear()
        for events in device.kept(batches) if device else batches:
            counters.extend(event for event in events if event.ph == "C")
            yield [event for event in events if event.ph != "C"]

    parsed = kineto_events(path, kept=kept)
    if parsed.repairs.has_no_end:  # Ascend's profiler writes files as a whole
        raise TraceCorrupt(f"{path}: truncated or damaged JSON (its list has no end); {REMAKE}")
    if not len(parsed.slices):
        raise TraceCorrupt(
            f"{path}: has no events: nothing ran while it was recorded, or it was not analysed to "
            "the end"
        )
    ts = np.concatenate([parsed.slices.ts, parsed.instants.ts, times(counters)])
    if odd := int((ts <= 0).sum()):
        raise TraceCorrupt(
            f"{path}: {odd:,} of {len(ts):,} events have a time that is not after 1970; the file "
            "is damaged: analyse the recording again with torch_npu.profiler.profiler.analyse"
        )
    with scratch_database(None, _MEMORY_BYTES, 1) as scratch:
        files = SideFiles(path, device=device.number if device else None)
        yield _File(path, scratch, parsed, files, counters)


class _File:
    """The events of a file, or of the part of one device in it, in a scratch database."""

    def __init__(
        self,
        path: Path,
        scratch: Scratch,
        parsed: KinetoEvents,
        files: SideFiles,
        counters: list[Event],
    ) -> None:
        self._path, self._scratch, self._parsed, self._files = path, scratch, parsed, files
        self._tracks = list(parsed.tracks)
        slices, columns, flows = parsed.slices, parsed.columns.slices, parsed.flows
        events = {"index": np.arange(len(slices)), "ts": slices.ts, "dur": slices.dur}
        events |= {"counted_dur": columns.counted_dur, "track": slices.track}
        events |= {"cat": columns.cat, "name": columns.name, "args": columns.args.storage}
        self._create("parsed", events)
        self._create("counter_event", self._counter_events(counters))
        self._create("track", _track_columns(self._tracks))
        ends = {"place": np.arange(len(flows.kind)), "arrow": flows.number}
        ends |= {"track": flows.ends.track, "ts": flows.ends.ts}
        for at, column in ((0, "phase"), (2, "kind")):
            texts = pa.array([str(kind[at] or "") for kind in flows.kinds], pa.large_string())
            ends[column] = texts.take(pa.array(flows.kind))
        self._create("arrow_end", ends)
        phases = {phase: n for phase, n in parsed.columns.phases.items() if phase != COMPLETE}
        self._create("phase_count", {"phase": [*phases], "events": pa.array(phases.values())})
        scratch.create("side_row", files.rows())
        scratch.create("operation", [files.operations()])
        set_variables(scratch, categories=[category.value for category in Category])
        run_common(scratch, "text")
        self._run("trace_view.sql")

    def activities(self) -> int:
        """The number of compute tasks, copies and operations of communication.

        Kernels that only carry out an operation count too: which ones do depends on the devices
        that the events are of.
        """
        sql = "SELECT COUNT(*) FROM event WHERE is_activity OR carries"
        return int(self._scratch.rows(sql)[0][0])

    def devices(self) -> list[Device]:
        """The part of each device that ran tasks, by its number; none if there is but one."""
        owner = dict(self._scratch.rows("SELECT track, device FROM track_device"))
        used = "SELECT DISTINCT device FROM track_device WHERE runs_tasks ORDER BY device"
        numbers = [number for (number,) in self._scratch.rows(used)]
        places = [(track.pid, track.tid) for track in self._parsed.tracks]
        found = []
        for number in numbers if len(numbers) > 1 else ():
            own = {place for at, place in enumerate(places) if owner[at] == number}
            others, pids = frozenset(places) - own, {pid for pid, _ in own}
            processes = frozenset(pid for pid, _ in others if pid not in pids)
            found.append(Device(number, others, processes))
        return found

    def feed(self, base_ns: int) -> Iterator[bytes]:
        """The events as JSON for the trace processor."""
        rows = self._scratch.arrow(
            "SELECT category, argument.args FROM event JOIN argument USING (index) ORDER BY index"
        )
        category, args = (rows[name].combine_chunks() for name in ("category", "args"))
        coded, name = category.dictionary_encode().cast(NAME), self._parsed.columns.slices.name
        described = feed.Described(coded, name, pa.ExtensionArray.from_storage(JSON, args))
        slices, tracks = self._parsed.slices, self._parsed.tracks
        ids, to_fed = feed.dense_ids(tracks, slices), feed.FedTimes(base_ns)
        return feed.described_feed(slices, described, self._parsed.flows, tracks, ids, to_fed)

    def tables(
        self, trace_processor: Path | None, statements: Iterable[Statement] = ()
    ) -> TraceTables:
        """The tables of the contract, with statements that are not about this part."""
        parsed, scratch, metadata = self._parsed, self._scratch, dict(self._files.metadata)
        slices, flows, tracks = parsed.slices, parsed.flows, parsed.tracks
        nested = nesting(slices, flows, tracks, trace_processor=trace_processor)
        index = np.arange(len(slices))
        self._create("nested", {"index": index, "parent": nested.parent, "depth": nested.depth})
        device, files_track = metadata.get(Metadata.DEVICE, 0), len(self._tracks)
        set_variables(scratch, device=device, files_track=files_track)
        self._run("trace_view_tables.sql")
        ((largest, samples),) = scratch.rows(
            "SELECT MAX(GREATEST(ranks, peer + 1)), (SELECT COUNT(*) FROM side_sample) FROM event"
        )
        if largest is not None:
            metadata[Metadata.LARGEST_GROUP.value] = int(largest)
        if samples:
            self._tracks.append(Track("files beside the trace", None, "files beside the trace"))
        state(scratch, statements)
        state(scratch, job_statements(self._path, metadata, self._files.damaged))
        made = ("slice", "activity", "counter", "count", "load_check")
        tables = {name: conforming(scratch.arrow(f"FROM {name}"), name) for name in made}
        of_json = remark_table(
            [*remarks(parsed.columns, slices, flows, nested), *repair_checks(parsed.repairs)]
        )
        tables |= {
            "flow": pa.table([nested.slice_out, nested.slice_in], schema=FLOW),
            "instant": instant_table(parsed),
            "track": track_table(self._tracks),
            "load_check": pa.concat_tables([of_json, tables["load_check"]]),
        }
        return TraceTables(tables, metadata)

    def _counter_events(self, events: list[Event]) -> dict[str, Any]:
        """The samples as columns; a process that has nothing else gets a track of its own."""
        track_of: dict[object, int] = {}
        for number, track in enumerate(self._tracks):
            track_of.setdefault(track.pid, number)
        for event in events:
            if event.pid not in track_of:
                track_of[event.pid] = len(self._tracks)
                self._tracks.append(Track(event.pid, None))
        args = [bytes(event.args).decode() for event in events]
        return {
            "place": np.arange(len(events)),
            "name": pa.array([str(event.name) for event in events], pa.large_string()),
            "ts": times(events),
            "track": np.array([track_of[event.pid] for event in events], np.int64),
            "args": pa.array(args, pa.large_string()),
        }

    def _create(self, table: str, columns: Mapping[str, Any]) -> None:
        self._scratch.create(table, [pa.table(columns)])

    def _run(self, script: str) -> None:
        self._scratch.run(Path(__file__).with_name(script))


def _track_columns(tracks: list[Track]) -> dict[str, Any]:
    """The tracks as columns: names, and numbers where the file has them."""
    table = track_table(tracks)
    return {name: table[name] for name in ("track", "pid", "tid")} | {
        "process": [str(track.process_name or "") for track in tracks],
        "thread": [str(track.thread_name or "") for track in tracks],
        "label": [str(track.process_labels or "").strip() for track in tracks],
        "pid_number": int64_column(whole_numbers([track.pid for track in tracks])),
        "tid_number": int64_column(whole_numbers([track.tid for track in tracks])),
    }
