"""Reads an output of rocprofv3: a set of tables for each rank in it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers import feed
from traceql.readers.dialects.rocprof.vocabulary import Metadata
from traceql.readers.flows import NO_FLOWS
from traceql.readers.formats.rocprof.csv_run import read_csv
from traceql.readers.formats.rocprof.forms import Form, form_of
from traceql.readers.formats.rocprof.rank_events import RankEvents
from traceql.readers.formats.rocprof.ranks import RankPart, rank_parts
from traceql.readers.formats.rocprof.recording import COUNTERS_WITHOUT_TIMES, Recording
from traceql.readers.formats.rocprof.remarks import remarks
from traceql.readers.formats.rocprof.rocpd import read_rocpd
from traceql.readers.formats.rocprof.tool_json import read_json
from traceql.readers.remarks import remark_table
from traceql.readers.tables import TraceTables

_FORMS = {Form.ROCPD: read_rocpd, Form.JSON: read_json, Form.CSV: read_csv}
_EMPTY = (
    "holds no events; was the program profiled while a GPU worked? "
    "Record with rocprofv3 --runtime-trace"
)
_TIMELESS_COUNTERS = (
    "holds counters whose kernels have no times, as ROCm 6.2 writes them, and nothing else; record "
    "them with a later version, or record times with rocprofv3 --runtime-trace"
)
_NO_TIMES = "no record in it has a time that can be; record again with rocprofv3 --runtime-trace"
_WITHOUT_GPU = (
    "holds nothing that a GPU did, so that it is no rank; if its process worked on a GPU, record "
    "with rocprofv3 --runtime-trace"
)


def read_recording(path: Path) -> Iterator[TraceTables]:
    """The tables of each rank, which is a process and one of its GPUs.

    Raises:
        TraceCorrupt: the file is damaged, or has another layout.
        NotATrace: it holds no events, or those of a process without a GPU, such as an API server.
    """
    recording = _recording(path)
    told: set[int] = set()
    for number, part in enumerate(rank_parts(recording)):
        found = RankEvents(recording.processes, part)
        is_first = id(part.process) not in told
        told.add(id(part.process))
        said = remark_table(remarks(found, part.process, is_first=is_first))
        about = _metadata(recording, part, number)
        rows = 0
        for tables in found.tables():
            rows += tables["slice"].num_rows
            is_last = rows == len(found)
            tables["load_check"] = said if is_last else said.schema.empty_table()
            yield TraceTables(tables, about, continues=not is_last)


def perfetto_feed(path: Path, base_ns: int, about: Mapping[str, Any]) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`."""
    recording = _recording(path)
    part = rank_parts(recording)[about[Metadata.PLACE]]
    found = RankEvents(recording.processes, part)
    timeline = found.timeline
    yield from feed.described_feed(
        timeline,
        feed.Described(found.cat, found.name, found.args),
        NO_FLOWS,
        found.tracks,
        feed.dense_ids(found.tracks, timeline),
        feed.FedTimes(base_ns),
    )


def _recording(path: Path) -> Recording:
    """The recording; errors name the file."""
    try:
        recording = _FORMS[form_of(path) or Form.CSV](path)
    except TraceCorrupt as error:
        raise type(error)(f"{path}: {str(error).removeprefix(f'{path.name}: ')}") from None
    if all(process.is_empty for process in recording.processes):
        raise NotATrace(f"{path}: {_emptiness(recording)}")
    if not any(process.used_a_gpu for process in recording.processes):
        raise NotATrace(f"{path}: {_WITHOUT_GPU}")
    return recording


def _emptiness(recording: Recording) -> str:
    """Why nothing of a recording is loaded."""
    if any(COUNTERS_WITHOUT_TIMES in process.not_loaded for process in recording.processes):
        return _TIMELESS_COUNTERS
    if any(process.without_times or process.backward for process in recording.processes):
        return _NO_TIMES
    return _EMPTY


def _metadata(recording: Recording, part: RankPart, number: int) -> dict[str, Any]:
    """What is known of a rank, by the keys of the dialect; NULL is left out."""
    agent = part.process.agent_of(part.device)
    known = {
        Metadata.FORM: recording.form.value,
        Metadata.SCHEMA: recording.schema,
        Metadata.PROCESS: part.process.pid,
        Metadata.PROCESS_NAME: part.process.name,
        Metadata.DEVICE: part.device,
        Metadata.DEVICE_NAME: agent.name,
        Metadata.ARCHITECTURE: agent.architecture,
        Metadata.PLACE: number,
    }
    return {str(key): value for key, value in known.items() if value is not None}
