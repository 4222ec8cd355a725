"""The reader of JSON traces: PyTorch's profiler (Kineto) and other Chrome traces."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceql.readers.compression import Packing
from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_json

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables

_SUFFIXES = (".json", *(f".json{packing.suffix}" for packing in Packing))


def _recognises(path: Path) -> bool:
    """Whether a file is JSON by its name or its first bytes."""
    return path.name.endswith(_SUFFIXES) or begins_like_json(path)


def _read(path: Path, *, trace_processor: Path | None) -> "Iterator[TraceTables]":
    from traceql.readers.formats.kineto.read import read_kineto

    return read_kineto(path, trace_processor=trace_processor)


def _stream(path: Path, folder: Path, memory_bytes: int, processes: int) -> "Iterator[TraceTables]":
    from traceql.readers.formats.kineto.streaming.read import stream_kineto

    return stream_kineto(path, folder=folder, memory_bytes=memory_bytes, processes=processes)


def _feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    from traceql.readers.formats.kineto.read import perfetto_feed

    return perfetto_feed(path, base_ns, metadata)


READER = Reader(
    name="kineto",
    format="json",
    suffixes=_SUFFIXES,
    dialect="pytorch",
    recognises=_recognises,
    read=_read,
    stream=_stream,
    feed=_feed,
    is_fallback=True,
)
