"""The reader of native Perfetto traces, which are protobuf packets."""

from pathlib import Path
from typing import TYPE_CHECKING

from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_json
from traceql.readers.formats.perfetto.recognition import (
    begins_like_a_trace,
    is_superseded,
    is_trace_of_another_name,
)

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables

_SUFFIXES = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")


def _recognises(path: Path) -> bool:
    """By the file's name, unless its content is JSON, or by its content."""
    named = path.name.endswith(_SUFFIXES)
    return not begins_like_json(path) if named else begins_like_a_trace(path)


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
    is_superseded=is_superseded,
    is_trace_of_another_name=is_trace_of_another_name,
)
