"""The two ways to read a JSON trace: with the trace processor, or streaming in bounded memory."""

from enum import StrEnum
from pathlib import Path

from traceql.errors import TraceqlError
from traceql.readers.packing import MAGIC_BYTES, packing_of

_USUAL_RATIO = 15  # about how much smaller compression makes a trace


class Way(StrEnum):
    """How traces are read; the tables are the same."""

    AUTO = "auto"  # by size
    PERFETTO = "perfetto"  # the trace processor nests the slices of a file at once
    STREAM = "stream"  # section by section


def named_way(name: str) -> Way:
    """The way with this name; raises TraceqlError if there is none."""
    if name not in list(Way):
        raise TraceqlError(f"no reader '{name}' (there is: {', '.join(Way)})")
    return Way(name)


def is_streamed(way: str, path: Path, from_bytes: int) -> bool:
    """Whether a trace is read section by section; if nothing else is said, from a size on."""
    return way == Way.STREAM or (way == Way.AUTO and unpacked_bytes(path) >= from_bytes)


def unpacked_bytes(path: Path) -> int:
    """About how many bytes a file has when it is unpacked."""
    with path.open("rb") as file:
        packing = packing_of(file.read(MAGIC_BYTES))
    return path.stat().st_size * (_USUAL_RATIO if packing else 1)
