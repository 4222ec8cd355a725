"""Reads one trace file in a separate process and writes its tables to disk as Arrow files.

Its stdin is one line with a `Request` as a JSON list. Then stdin stays open for as long as the
result is wanted: when it ends, because the parent was killed or has no use for the result any more,
this process ends at once, and so does what it started.

It does not import the code that writes the database, because that would slow down its start.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from hashlib import file_digest
from itertools import zip_longest
from pathlib import Path
from threading import Thread
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, NamedTuple

from traceql.util.process import hide_pandas

if TYPE_CHECKING:
    from traceql.errors import TraceqlError
    from traceql.readers.contract import Reader
    from traceql.readers.tables import TraceTables

RESULT = "result.json"
_MINUTES_NS = 600 * 10**9  # what lies within this time of everything else is not out of place
_MONTH_NS = 30 * 86_400 * 10**9  # no recording lasts longer
_BATCH_ROWS = 32_768  # DuckDB scans batches in parallel


class Request(NamedTuple):
    """What to read.

    Attributes:
        folder: where to write the tables; it does not exist yet.
        nonce: what the answer repeats, so that it is known to be for this request.
        loaded: SHA-256 of the files that need not be read.
        trace_processor: a native trace_processor_shell to use instead of the bundled one.
        mode: how to read JSON, a ReadMode.
        memory_bytes: how much memory this process, and those that it starts, may use.
        processes: how many processes may read the file.
    """

    file: str
    folder: str
    nonce: str = ""
    loaded: Sequence[str] = ()
    trace_processor: str | None = None
    mode: str = "auto"
    memory_bytes: int = 1 << 30
    processes: int = 1


def main() -> int:
    """Serves one request from stdin; writes a TraceqlError to stdout as [class, message]."""
    line = sys.stdin.buffer.readline()
    _end_with_stdin()
    hide_pandas()
    gc.disable()  # it would scan millions of live events over and over
    request = Request(*json.loads(line))
    from traceql.errors import TraceqlError

    try:
        read(request)
    except (TraceqlError, OSError, MemoryError) as error:
        raised = traceql_error(error, request.file)
        json.dump((type(raised).__name__, str(raised)), sys.stdout)
        return 1
    return 0


def traceql_error(error: Exception, file: str) -> "TraceqlError":
    """What the user gets for an error of reading a file."""
    from traceql.errors import TraceqlError

    if isinstance(error, TraceqlError):
        return error
    if isinstance(error, MemoryError):
        return TraceqlError(f"{file}: not enough memory to read it; try --jobs 1")
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename not in (None, file) else ""
        return TraceqlError(f"{file}: cannot be read: {place}{error.strerror or error}")
    return failure(file, "".join(format_exception_only(error)))


def failure(file: str, message: str) -> "TraceqlError":
    """What the user gets for an error that readers do not expect.

    Args:
        message: what Python says of it; the last line counts.
    """
    from traceql.errors import TraceqlError

    last = (message.strip().splitlines() or ["no message"])[-1]
    return TraceqlError(f"{file}: reading failed ({last}); please report this trace")


def _end_with_stdin() -> None:
    """Ends this process when stdin ends, and its group: the native trace processor, if any."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def read(request: Request) -> None:
    """Reads the file; the answer is in the folder when everything else is."""
    from traceql.errors import TraceCorrupt

    file, folder = Path(request.file), Path(request.folder)
    folder.mkdir()
    before = _version(file)
    sha256 = _sha256(file)
    result: dict[str, Any] = {"sha256": sha256, "size_bytes": file.stat().st_size}
    if sha256 not in request.loaded:
        result["recordings"] = _tables_on_disk(file, folder, request)
    if _version(file) != before:
        raise TraceCorrupt(f"{file} changed while it was read; load it when it is complete")
    answer = {"nonce": request.nonce, "path": request.file, "result": result}
    (folder / RESULT).write_text(json.dumps(answer))


def _version(file: Path) -> tuple[int, int, int]:
    from traceql.errors import TraceNotFound

    try:
        status = file.stat()
    except OSError as error:
        raise TraceNotFound(f"{file}: {error.strerror}") from None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _sha256(file: Path) -> str:
    from traceql.errors import TraceNotFound

    try:
        with file.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise TraceNotFound(f"{file}: {error.strerror}") from None


def _tables_on_disk(file: Path, folder: Path, request: Request) -> list[dict[str, Any]]:
    """Writes a folder per rank in the file; returns what else is known of each."""
    from traceql.readers.dialects.registry import known_keys
    from traceql.readers.redaction import public_tables
    from traceql.readers.registry import reader_of

    reader = reader_of(file)
    if reader.stream and reader.streams(file, request.mode):
        read: Any = reader.stream(file, folder, request.memory_bytes, request.processes)
    else:
        native = Path(request.trace_processor) if request.trace_processor else None
        read = reader.read(file, trace_processor=native)
    found: list[dict[str, Any]] = []
    extent: dict[str, int] = {}
    part = 0
    for trace in read if isinstance(read, Iterator) else [read]:
        _require_tables(reader.name, trace)
        trace = public_tables(trace, known_keys(trace.dialect or reader.dialect))
        number = len(found)
        _part_on_disk(trace, folder / str(number), part)
        extent = _with_extent(extent, trace)
        part += 1
        if not trace.continues:
            found.append(_about(reader, trace, number) | extent)
            extent, part = {}, 0
        del trace  # before the next part is read
    return found


def _part_on_disk(trace: "TraceTables", folder: Path, part: int) -> None:
    """Writes an Arrow file per table."""
    import pyarrow as pa

    from traceql.errors import DatabaseError
    from traceql.readers.tables import SCHEMAS

    folder.mkdir(exist_ok=True)
    try:
        for name, schema in SCHEMAS.items():
            with pa.ipc.new_file(folder / part_name(name, part), schema) as sink:
                sink.write_table(trace.tables[name], max_chunksize=_BATCH_ROWS)
    except OSError as error:  # of Arrow, which names no file
        why = os.strerror(error.errno) if error.errno else str(error)
        raise DatabaseError(f"cannot write in {folder}: {why}") from None


def part_name(table: str, part: int) -> str:
    """The name of the file with a part of a table."""
    return f"{table}.{part:06}.arrow"


def _with_extent(extent: dict[str, int], trace: "TraceTables") -> dict[str, int]:
    """The first and the last time of earlier parts and this one; empty without events.

    Impossible times (see the table recording_span) count only as the lowest and the highest.
    """
    import numpy as np

    slices, *points = (trace.tables[name] for name in ("slice", "instant", "counter"))
    starts = np.concatenate([table["ts"].to_numpy() for table in (slices, *points)])
    if not len(starts):
        return extent
    ends = starts.copy()
    ends[: slices.num_rows] += slices["dur"].to_numpy()
    lowest, highest = int(starts.min()), int(max(starts.max(), ends.max()))
    first, last = lowest, highest
    if highest - lowest > _MINUTES_NS:
        middle = np.partition(starts, len(starts) // 2)[len(starts) // 2]
        has_time = (starts != 0) | (ends != 0)
        if starts[has_time].min(initial=highest) <= _MINUTES_NS:  # 0 is a time like others
            has_time[:] = True
        has_time &= (abs(starts - middle) <= _MONTH_NS) & (abs(ends - middle) <= _MONTH_NS)
        if has_time.any():
            first, last = int(starts[has_time].min()), int(ends[has_time].max())
    return {
        "first_ts": min(first, extent.get("first_ts", first)),
        "last_ts": max(last, extent.get("last_ts", last)),
        "lowest_ts": min(lowest, extent.get("lowest_ts", lowest)),
        "highest_ts": max(highest, extent.get("highest_ts", highest)),
    }


def _about(reader: "Reader", trace: "TraceTables", number: int) -> dict[str, Any]:
    """What is known of a rank besides its tables and their extent."""
    return {
        "number": number,
        "reader": reader.name,
        "format": reader.format,
        "dialect": trace.dialect or reader.dialect,
        "metadata": trace.metadata,
    }


def _require_tables(reader: str, trace: Any) -> None:
    """Raises DefinitionInvalid unless a reader delivered what its contract says."""
    from traceql.errors import DefinitionInvalid
    from traceql.readers.tables import SCHEMAS, TraceTables

    if not isinstance(trace, TraceTables):
        found = type(trace).__name__
        raise DefinitionInvalid(f"reader {reader}: read returned {found}, not TraceTables")
    for name, schema in SCHEMAS.items():
        if name not in trace.tables:
            raise DefinitionInvalid(f"reader {reader}: table '{name}' is missing")
        columns = map(str, trace.tables[name].schema), map(str, schema)
        for delivered, declared in zip_longest(*columns, fillvalue="missing"):
            if delivered != declared:
                what = f"a column is {delivered}, not {declared}"
                raise DefinitionInvalid(f"reader {reader}: table '{name}': {what}")


if __name__ == "__mp_main__":  # of a process that this one has started
    hide_pandas()
if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # freeing millions of objects one by one would take as long as a query
