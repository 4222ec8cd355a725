"""Modes of reading a JSON trace: with the trace processor, or streaming in bounded memory."""

from enum import StrEnum
from pathlib import Path

from traceql.errors import TraceqlError
from traceql.readers.packing import MAGIC_BYTES, packing_of

_USUAL_RATIO = 15  # about how much smaller compression makes a trace


class ReadMode(StrEnum):
    """How traces are read; the tables are the same in all modes."""

    AUTO = "auto"  # by size
    PERFETTO = "perfetto"  # the trace processor nests the slices of a file at once
    STREAM = "stream"  # section by section


def parse_read_mode(name: str) -> ReadMode:
    """The mode with this name; raises TraceqlError if there is none."""
    if name not in list(ReadMode):
        raise TraceqlError(f"no reader '{name}' (there is: {', '.join(ReadMode)})")
    return ReadMode(name)


def is_streamed(mode: str, path: Path, from_bytes: int) -> bool:
    """Whether a trace is read section by section; in mode auto, from a size on."""
    return mode == ReadMode.STREAM or (mode == ReadMode.AUTO and unpacked_bytes(path) >= from_bytes)


def unpacked_bytes(path: Path) -> int:
    """About how many bytes a file has when it is unpacked."""
    with path.open("rb") as file:
        packing = packing_of(file.read(MAGIC_BYTES))
    return path.stat().st_size * (_USUAL_RATIO if packing else 1)
