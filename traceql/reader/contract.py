"""What a reader declares about itself: its `READER`, which the registry finds.

This module and every `READER` are imported at start-up, so neither may import anything heavy.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from traceql.reader.tables import TraceTables


class ReadFile(Protocol):
    """Reads one file into tables, or raises a TraceqlError that names the file."""

    def __call__(self, path: Path, *, trace_processor: Path | None) -> "TraceTables": ...


@dataclass(frozen=True)
class Reader:
    """One trace format: how its files are recognized and read.

    Attributes:
        name: what the column `trace.reader` says.
        format: what the column `trace.format` says.
        suffixes: how file names of this format end; used to find traces in a folder.
        dialect: the folder of traceql/dialect that explains the events' categories and arguments.
        recognises: whether a file is of this format. It may read the first bytes of the file, and
            must not raise for files that are damaged.
        read: reads a file into tables. It imports what it needs when it is called.
        feed: the file in a form that the trace processor accepts, in pieces, with times relative
            to the given nanosecond; None if the trace processor opens the file itself.
        is_fallback: whether this reader is asked last, and gets the files that no reader
            recognises, so that its error messages say what is wrong with them. There is one.
    """

    name: str
    format: str
    suffixes: tuple[str, ...]
    dialect: str
    recognises: Callable[[Path], bool]
    read: ReadFile
    feed: Callable[[Path, int], Iterator[bytes]] | None = None
    is_fallback: bool = False
