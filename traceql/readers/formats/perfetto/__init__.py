"""The reader of native Perfetto traces, which are protobuf packets."""

from pathlib import Path
from typing import TYPE_CHECKING

from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_json

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables

_SUFFIXES = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")


def _recognises(path: Path) -> bool:
    """By the file's name, unless its content is JSON."""
    return path.name.endswith(_SUFFIXES) and not begins_like_json(path)


def _read(path: Path, *, trace_processor: Path | None) -> "TraceTables":
    from traceql.readers.formats.perfetto.read import read_native

    return read_native(path, trace_processor=trace_processor)


READER = Reader(
    name="perfetto",
    format="perfetto",
    suffixes=_SUFFIXES,
    dialect="pytorch",
    recognises=_recognises,
    read=_read,
)
