"""What a reader declares about itself: its `READER`, for the registry, and modes of reading.

This module and every `READER` are imported at start-up, so neither may import anything heavy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from traceql.errors import TraceqlError
from traceql.readers.compression import MAGIC_BYTES, packing_of

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables


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


class ReadFile(Protocol):
    """Reads one file into tables, or raises a TraceqlError that names the file.

    A format whose files hold several ranks gives the tables of one rank after the other, and those
    of a large rank in several parts.
    """

    def __call__(
        self, path: Path, *, trace_processor: Path | None
    ) -> "TraceTables | Iterator[TraceTables]": ...


@dataclass(frozen=True)
class Reader:
    """One trace format: how its files are recognized and read.

    Attributes:
        name: what the column `trace.reader` says.
        format: what the column `trace.format` says.
        suffixes: how file names of this format end; used to find traces in a folder.
        dialect: the folder of traceql/readers/dialects that explains the events' categories and
            arguments.
        recognises: whether a file is of this format. It may read the first bytes of the file, and
            must not raise for files that are damaged.
        read: reads a file into tables. It imports what it needs when it is called.
        stream: reads a file section by section, in bounded memory and without the trace processor;
            None if `read` is the only way. It may write into the given folder, and gets how
            many bytes of memory and how many processes it may use.
        streamed_bytes: from which size on files are streamed, unpacked, unless the user says how.
        feed: the file in a form that the trace processor accepts, in pieces, with times relative
            to the given nanosecond; the metadata say which rank of the file. None if the trace
            processor opens the file itself.
        runs_engine: whether `read` runs the trace processor.
        opens_in_perfetto: whether the Perfetto UI opens the files as they are; else it is given the
            feed.
        is_superseded: whether a file of a folder is left out, because another file beside it was
            made from it.
        is_trace_of_another_name: whether a file of a folder is a trace though its name does not end
            with one of `suffixes`.
        traces_of_folder: the traces of a folder that is laid out as the profiler writes it,
            wherever in it they are; empty for any other folder.
        files: the files that are read for a recording, whose sizes say how much that is; none if
            they do not, or if another program reads it.
        whole: the file that stands for a recording of several files; the file itself where it is
            a recording of its own. Such a recording is loaded once.
        is_general: whether this reader also takes files of a container that formats share, such as
            SQLite, so that it is asked after the readers that look inside.
        is_fallback: whether this reader is asked last, and gets the files that no reader
            recognises, so that its error messages say what is wrong with them. There is one.
    """

    name: str
    format: str
    suffixes: tuple[str, ...]
    dialect: str
    recognises: Callable[[Path], bool]
    read: ReadFile
    stream: Callable[[Path, Path, int, int], "Iterator[TraceTables]"] | None = None
    streamed_bytes: int = 400 << 20  # of JSON the trace processor needs over 2 GB there
    feed: Callable[[Path, int, Mapping[str, Any]], Iterator[bytes]] | None = None
    runs_engine: bool = True
    opens_in_perfetto: bool = True
    is_superseded: Callable[[Path], bool] = lambda _path: False
    is_trace_of_another_name: Callable[[Path], bool] = lambda _path: False
    traces_of_folder: Callable[[Path], Sequence[Path]] = lambda _folder: ()
    files: Callable[[Path], Sequence[Path]] = lambda path: [path]
    whole: Callable[[Path], Path] = lambda path: path
    is_general: bool = False
    is_fallback: bool = False

    def streams(self, path: Path, mode: str) -> bool:
        """Whether a file is read section by section in this mode of reading."""
        return self.stream is not None and is_streamed(mode, path, self.streamed_bytes)
