"""Reads a trace of Ascend in text form, with the files beside it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers import feed
from traceql.readers.arguments import int64_column, whole_numbers
from traceql.readers.asked_nesting import nesting
from traceql.readers.dialects.ascend.vocabulary import Category, Metadata
from traceql.readers.flows import Flows
from traceql.readers.formats.ascend import side_rows
from traceql.readers.formats.ascend.job import file_remarks, job_size_remarks
from traceql.readers.formats.ascend.layout import WHOLE_AGAIN, is_slice
from traceql.readers.formats.ascend.recognition import is_graph_dump
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.kineto.gathering import times
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.formats.kineto.ledger import remarks
from traceql.readers.formats.kineto.read import KinetoEvents, instant_table, kineto_events
from traceql.readers.phases import COMPLETE
from traceql.readers.relations import conforming
from traceql.readers.remarks import Remark, remark_table
from traceql.readers.scratch import Scratch, scratch_database
from traceql.readers.tables import FLOW, JSON, NAME, TraceTables
from traceql.readers.tracks import Track, track_table

SQL = Path(__file__).parent
_COUNTER = "C"
_NUMBER = re.compile(r"NPU\s*(\d{1,6})")
_MEMORY_BYTES = 2 << 30
Kept = Callable[[Iterable[list[Event]]], Iterator[list[Event]]]


def read_ascend(path: Path, *, trace_processor: Path | None) -> Iterator[TraceTables]:
    """The tables of a rank; of each device, if the file has several.

    Raises:
        NotATrace: the file shows a captured graph, or is a part of a timeline.
        TraceCorrupt: the file is damaged, or has events without a time.
    """
    with _opened(path, SideFiles(path)) as file:
        devices = file.devices()
        if not devices:
            yield file.tables(trace_processor)
            return
        total, loaded = file.activities(), 0
    for device in devices:
        with _opened(path, SideFiles(path, device=device.number), device.kept) as file:
            loaded += file.activities()
            is_last = device is devices[-1]
            more = _of_devices(len(devices), (loaded, total) if is_last else None)
            yield file.tables(trace_processor, more)


def perfetto_feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`."""
    with _opened(path, SideFiles(path)) as file:
        number = metadata.get(Metadata.DEVICE)
        device = next((one for one in file.devices() if one.number == number), None)
        if device is None:
            yield from file.feed(base_ns)
            return
    with _opened(path, SideFiles(path, device=device.number), device.kept) as file:
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
def _opened(path: Path, files: SideFiles, kept: Kept = iter) -> Iterator["_File"]:
    """A file whose events are parsed, and have their categories.

    Args:
        kept: leaves out events that are not to be read.
    """
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
    parsed = kineto_events(path, kept=lambda batches: _without_counters(kept(batches), counters))
    if not len(parsed.slices):
        raise TraceCorrupt(
            f"{path}: has no events: nothing ran while it was recorded, or it was not analysed to "
            "the end"
        )
    counter_ts = times(counters)
    ts = np.concatenate([parsed.slices.ts, parsed.instants.ts, counter_ts])
    if odd := int((ts <= 0).sum()):
        raise TraceCorrupt(
            f"{path}: {odd:,} of {len(ts):,} events have a time that is not after 1970; the file "
            "is damaged: analyse the recording again with torch_npu.profiler.profiler.analyse"
        )
    with scratch_database(None, _MEMORY_BYTES, 1) as scratch:
        yield _File(path, scratch, parsed, files, (counters, counter_ts))


def _without_counters(
    batches: Iterable[list[Event]], counters: list[Event]
) -> Iterator[list[Event]]:
    """All events but the samples of counters, which are added to a list."""
    for events in batches:
        counters += [event for event in events if event.ph == _COUNTER]
        yield [event for event in events if event.ph != _COUNTER]


class _File:
    """The events of a file, or of the part of one device in it, in a scratch database."""

    def __init__(
        self,
        path: Path,
        scratch: Scratch,
        parsed: KinetoEvents,
        files: SideFiles,
        counters: tuple[Sequence[Event], Any],
    ) -> None:
        self._path, self._scratch, self._parsed, self._files = path, scratch, parsed, files
        self._tracks = list(parsed.tracks)
        columns = parsed.columns.slices
        slices = parsed.slices
        phases = {phase: n for phase, n in parsed.columns.phases.items() if phase != COMPLETE}
        events = {
            "index": np.arange(len(slices)),
            "ts": slices.ts,
            "dur": slices.dur,
            "counted_dur": columns.counted_dur,
            "track": slices.track,
            "cat": columns.cat,
            "name": columns.name,
            "args": columns.args.storage,
        }
        self._add("parsed", events)
        self._add("arrow_end", _arrow_ends(parsed.flows))
        self._add("counter_event", self._counter_events(*counters))
        self._add("track", _track_columns(self._tracks))
        self._add(
            "phase_count",
            {
                "phase": pa.array(phases, pa.large_string()),
                "events": pa.array(phases.values(), pa.int64()),
            },
        )
        for table in (
            side_rows.kernel_detail,
            side_rows.operation,
            side_rows.sample,
            side_rows.step_sum,
        ):
            self._add(table.__name__, table(files))
        self._set("categories", [cat.value for cat in Category])
        self._set("is_text", True)
        for script in ("common.sql", "trace_view.sql"):
            scratch.run(SQL / script)

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
        slices = self._parsed.slices
        return feed.described_feed(
            slices,
            feed.Described(
                category.dictionary_encode().cast(NAME),
                self._parsed.columns.slices.name,
                pa.ExtensionArray.from_storage(JSON, args),
            ),
            self._parsed.flows,
            self._parsed.tracks,
            feed.dense_ids(self._parsed.tracks, slices),
            feed.FedTimes(base_ns),
        )

    def tables(self, trace_processor: Path | None, more: Iterable[Remark] = ()) -> TraceTables:
        """The tables of the contract.

        Args:
            more: remarks beside those about the file.
        """
        parsed, scratch, metadata = self._parsed, self._scratch, dict(self._files.metadata)
        nested = nesting(
            parsed.slices, parsed.flows, parsed.tracks, trace_processor=trace_processor
        )
        index = np.arange(len(parsed.slices))
        self._add("nested", {"index": index, "parent": nested.parent, "depth": nested.depth})
        self._set("device", metadata.get(Metadata.DEVICE, 0))
        self._set("files_track", len(self._tracks))
        self._set("side_cells", side_rows.sample_cells(self._files))
        for script in ("trace_view_tables.sql", "statements.sql"):
            scratch.run(SQL / script)
        ((largest, samples),) = scratch.rows(
            "SELECT MAX(GREATEST(ranks, peer + 1)), (SELECT COUNT(*) FROM side_sample) FROM event"
        )
        if largest is not None:
            metadata[Metadata.LARGEST_GROUP.value] = int(largest)
        if samples:
            self._tracks.append(Track("files beside the trace", None, "files beside the trace"))
        said = [
            *job_size_remarks(metadata),
            *remarks(parsed.columns, parsed.slices, parsed.flows, nested),
            *(Remark(*row) for row in scratch.rows("FROM statement")),
            *file_remarks(self._path, self._files.damaged),
            *more,
        ]
        made = ("slice", "activity", "counter", "count")
        tables = {
            **{name: conforming(scratch.arrow(f"FROM {name}"), name) for name in made},
            "flow": pa.table([nested.slice_out, nested.slice_in], schema=FLOW),
            "instant": instant_table(parsed),
            "track": track_table(self._tracks),
            "load_check": remark_table(said),
        }
        return TraceTables(tables, metadata)

    def _counter_events(self, events: Sequence[Event], ts: Any) -> dict[str, Any]:
        """The samples as columns; a process that has nothing else gets a track of its own."""
        track_of: dict[object, int] = {}
        for number, track in enumerate(self._tracks):
            track_of.setdefault(track.pid, number)
        for event in events:
            if event.pid not in track_of:
                track_of[event.pid] = len(self._tracks)
                self._tracks.append(Track(event.pid, None))
        return {
            "place": np.arange(len(events)),
            "name": pa.array([str(event.name) for event in events], pa.large_string()),
            "ts": ts,
            "track": np.array([track_of[event.pid] for event in events], np.int64),
            "args": pa.array([bytes(event.args).decode() for event in events], pa.large_string()),
        }

    def _set(self, name: str, value: Any) -> None:
        self._scratch.con.execute(f"SET VARIABLE {name} = $1", [value])

    def _add(self, table: str, columns: Mapping[str, Any]) -> None:
        """Adds a table of these columns."""
        self._scratch.create(table, [pa.table(columns)])


def _arrow_ends(flows: Flows) -> dict[str, Any]:
    """The ends of arrows as columns."""
    phase, cat = (
        pa.array([str(kind[at] or "") for kind in flows.kinds], pa.large_string()) for at in (0, 2)
    )
    kind = pa.array(flows.kind)
    return {
        "place": np.arange(len(flows.kind)),
        "arrow": flows.number,
        "phase": phase.take(kind),
        "kind": cat.take(kind),
        "track": flows.ends.track,
        "ts": flows.ends.ts,
    }


def _track_columns(tracks: Sequence[Track]) -> dict[str, Any]:
    """The tracks as columns: names, and numbers where the file has them."""
    table = track_table(tracks)
    label = [str(track.process_labels or "").strip() for track in tracks]
    named = [_NUMBER.fullmatch(text) for text in label]
    pid, tid = ([getattr(track, what) for track in tracks] for what in ("pid", "tid"))
    return {
        **{name: table[name] for name in ("track", "pid", "tid")},
        "process": [str(track.process_name or "") for track in tracks],
        "thread": [str(track.thread_name or "") for track in tracks],
        "label": label,
        "label_device": pa.array([int(one[1]) if one else None for one in named], pa.int64()),
        "pid_number": int64_column(whole_numbers(pid)),
        "tid_number": int64_column(whole_numbers(tid)),
        "place": pa.array([one if isinstance(one, int) else -1 for one in tid], pa.int64()),
    }


def _of_devices(devices: int, kernels: tuple[int, int] | None) -> Iterator[Remark]:
    """Args: kernels: of all devices together, and of the file, where they are known."""
    yield Remark(
        "devices in the file",
        devices,
        devices,
        None,
        "devices whose tasks are in this one file; each is a rank of its own, with the threads of "
        "the host that started most of its tasks. The file does not tell which ranks they are",
    )
    if kernels:
        yield Remark(
            "kernels of all devices",
            *kernels,
            kernels[0] == kernels[1],
            "compute tasks, copies and operations of communication of all devices of the file, "
            "which are ranks of their own; in the file, before its events are divided among the "
            "devices",
        )
