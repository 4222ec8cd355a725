"""Reads a trace of Ascend in text form, with the files beside it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traceql.errors import NotATrace
from traceql.readers import feed
from traceql.readers.asked_nesting import nesting
from traceql.readers.dialects.ascend.vocabulary import Metadata
from traceql.readers.formats.ascend.common_remarks import of_all_devices, of_several_devices
from traceql.readers.formats.ascend.devices import activities, device_parts
from traceql.readers.formats.ascend.events import AscendEvents, ascend_events
from traceql.readers.formats.ascend.job_size import job_size_remarks, largest_group
from traceql.readers.formats.ascend.kernel_details import kernel_details
from traceql.readers.formats.ascend.layout import WHOLE_AGAIN, is_slice
from traceql.readers.formats.ascend.recognition import is_graph_dump
from traceql.readers.formats.ascend.remarks import remarks
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.ascend.tables import arguments, tables
from traceql.readers.remarks import Remark, remark_table
from traceql.readers.tables import TraceTables


def read_ascend(path: Path, *, trace_processor: Path | None) -> Iterator[TraceTables]:
    """The tables of a rank; of each device, if the file has several.

    Raises:
        NotATrace: the file shows a captured graph, or is a part of a timeline.
        TraceCorrupt: the file is damaged, or has events without a time.
    """
    events = _events(path)
    parts = device_parts(events)
    if not parts:
        yield _rank_tables(path, events, SideFiles(path), trace_processor)
        return
    total, loaded = activities(events), 0
    del events
    for part in parts:
        found = ascend_events(path, kept=part.kept)
        loaded += activities(found)
        said = [of_several_devices(len(parts))]
        if part is parts[-1]:
            said.append(of_all_devices(loaded, total))
        yield _rank_tables(
            path, found, SideFiles(path, device=part.device), trace_processor, more=said
        )


def _rank_tables(
    path: Path,
    events: AscendEvents,
    files: SideFiles,
    trace_processor: Path | None,
    *,
    more: Sequence[Remark] = (),
) -> TraceTables:
    details = kernel_details(events, files)
    parsed = events.parsed
    nested = nesting(parsed.slices, parsed.flows, parsed.tracks, trace_processor=trace_processor)
    found = tables(events, files, details, nested)
    metadata = {**files.metadata, **_largest_group(events)}
    said = [*job_size_remarks(metadata), *remarks(path, events, files, details, nested)]
    found["load_check"] = remark_table([*said, *more])
    return TraceTables(found, metadata)


def _largest_group(events: AscendEvents) -> dict[str, int]:
    sizes, peers = ([getattr(a, name) for a in events.arguments] for name in ("ranks", "peer"))
    largest = largest_group(sizes, peers)
    return {} if largest is None else {Metadata.LARGEST_GROUP: largest}


def perfetto_feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`."""
    events, files = _events(path), SideFiles(path)
    for part in device_parts(events):
        if part.device == metadata.get(Metadata.DEVICE):
            events = ascend_events(path, kept=part.kept)
            files = SideFiles(path, device=part.device)
    parsed = events.parsed
    args = arguments(events, files, kernel_details(events, files))
    return feed.described_feed(
        parsed.slices,
        feed.Described(events.category, parsed.columns.slices.name, args),
        parsed.flows,
        parsed.tracks,
        feed.dense_ids(parsed.tracks, parsed.slices),
        feed.FedTimes(base_ns),
    )


def _events(path: Path) -> AscendEvents:
    if is_graph_dump(path):
        raise NotATrace(
            f"{path}: the dump of a captured graph, whose times are invented; "
            "load the trace_view.json of the run instead"
        )
    if is_slice(path):
        raise NotATrace(
            f"{path}: one of the slices that msprof cut the timeline of a rank into; {WHOLE_AGAIN}"
        )
    return ascend_events(path)
