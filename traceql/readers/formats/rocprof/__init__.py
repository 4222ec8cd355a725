"""The reader of rocprofv3, AMD's profiler: its databases (rocpd), JSON and CSV.

Its Perfetto traces are read as all Perfetto traces are (traceql.readers.formats.perfetto).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceql.readers.contract import Reader
from traceql.readers.formats.rocprof.forms import KINDS, files, form_of, is_superseded, leader

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables

_ENDINGS = (".db", *(f"{kind}.csv" for kind in KINDS))
_STREAMED_BYTES = 64 << 20
_SUFFIXES = tuple(f"{ending}{packed}" for packed in ("", ".gz") for ending in _ENDINGS)


def _recognises(path: Path) -> bool:
    return form_of(path) is not None


def _read(path: Path, *, trace_processor: Path | None) -> "Iterator[TraceTables]":
    from traceql.readers.formats.rocprof.read import prepare
    from traceql.readers.relations import read_relations

    return read_relations(path, prepare)  # its slices are nested without the trace processor


def _stream(path: Path, folder: Path, memory_bytes: int, processes: int) -> "Iterator[TraceTables]":
    from traceql.readers.formats.rocprof.read import prepare
    from traceql.readers.relations import read_relations

    return read_relations(
        path, prepare, folder=folder, memory_bytes=memory_bytes, threads=processes
    )


def _feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    from traceql.readers.formats.rocprof.read import prepare
    from traceql.readers.relations import feed_relations

    return feed_relations(path, prepare, base_ns, metadata)


READER = Reader(
    name="rocprof",
    format="rocprofv3",
    suffixes=_SUFFIXES,
    dialect="rocprof",
    recognises=_recognises,
    read=_read,
    stream=_stream,
    streamed_bytes=_STREAMED_BYTES,
    feed=_feed,
    opens_in_perfetto=False,
    is_superseded=is_superseded,
    files=files,
    whole=leader,
    runs_engine=False,
)
