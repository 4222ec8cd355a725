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
import warnings
from collections.abc import Sequence
from hashlib import file_digest
from itertools import zip_longest
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, NamedTuple

RESULT = "result.json"
_BATCH_ROWS = 32_768  # DuckDB scans batches in parallel


class Request(NamedTuple):
    """What to read.

    Attributes:
        folder: where to write the tables; it does not exist yet.
        nonce: what the answer repeats, so that it is known to be for this request.
        loaded: SHA-256 of the files that need not be read.
        trace_processor: a native trace_processor_shell to use instead of the bundled one.
    """

    file: str
    folder: str
    nonce: str = ""
    loaded: Sequence[str] = ()
    trace_processor: str | None = None


def main() -> int:
    """Serves one request from stdin; writes a TraceqlError to stdout as [class, message]."""
    line = sys.stdin.buffer.readline()
    _end_with_stdin()
    _hide_pandas()
    gc.disable()  # it would scan millions of live events over and over
    request = Request(*json.loads(line))
    from traceql.errors import TraceqlError

    try:
        read(request)
    except (TraceqlError, OSError, MemoryError) as error:
        json.dump(told(error, request), sys.stdout)
        return 1
    return 0


def told(error: Exception, request: Request) -> tuple[str, str]:
    """The class and the message of the TraceqlError that the parent raises."""
    file = request.file
    if isinstance(error, MemoryError):
        return "TraceqlError", f"{file}: not enough memory to read it; try --jobs 1"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename not in (None, file) else ""
        return "TraceqlError", f"{file}: cannot be read: {place}{error.strerror or error}"
    return type(error).__name__, str(error)


def _end_with_stdin() -> None:
    """Ends this process when stdin ends, and its group: the native trace processor, if any."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _hide_pandas() -> None:
    """Stops pyarrow from importing pandas, which takes 0.3 s and is not needed here."""
    stand_in = ModuleType("pandas")
    stand_in.__dict__["__version__"] = "0"  # too old for pyarrow, which then warns and does without
    sys.modules["pandas"] = stand_in
    warnings.filterwarnings("ignore", "pyarrow requires pandas")


def read(request: Request) -> None:
    """Reads the file; the answer is in the folder when everything else is."""
    from traceql.errors import TraceCorrupt

    file, folder = Path(request.file), Path(request.folder)
    native = Path(request.trace_processor) if request.trace_processor else None
    folder.mkdir()
    before = _version(file)
    sha256 = _sha256(file)
    result: dict[str, Any] = {"sha256": sha256, "size_bytes": file.stat().st_size}
    if sha256 not in request.loaded:
        result |= _tables_on_disk(file, folder, native)
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


def _tables_on_disk(file: Path, folder: Path, trace_processor: Path | None) -> dict[str, Any]:
    """Writes an Arrow file per table; returns everything else that is known about the trace."""
    import numpy as np
    import pyarrow as pa

    from traceql.errors import DatabaseError
    from traceql.reader.registry import reader_of
    from traceql.reader.tables import SCHEMAS

    reader = reader_of(file)
    trace = reader.read(file, trace_processor=trace_processor)
    _require_tables(reader.name, trace)
    try:
        for name, schema in SCHEMAS.items():
            with pa.ipc.new_file(folder / f"{name}.arrow", schema) as sink:
                sink.write_table(trace.tables[name], max_chunksize=_BATCH_ROWS)
    except OSError as error:  # of Arrow, which names no file
        why = os.strerror(error.errno) if error.errno else str(error)
        raise DatabaseError(f"cannot write in {folder}: {why}") from None
    slices, instants = trace.tables["slice"], trace.tables["instant"]
    starts = np.concatenate((slices["ts"].to_numpy(), instants["ts"].to_numpy()))
    ends = np.append(slices["ts"].to_numpy() + slices["dur"].to_numpy(), starts)
    extent = {"first_ts": int(starts.min()), "last_ts": int(ends.max())} if len(starts) else {}
    about = {
        "reader": reader.name,
        "format": reader.format,
        "dialect": reader.dialect,
        "metadata": trace.metadata,
    }
    return about | extent


def _require_tables(reader: str, trace: Any) -> None:
    """Raises DefinitionInvalid unless a reader delivered what its contract says."""
    from traceql.errors import DefinitionInvalid
    from traceql.reader.tables import SCHEMAS, TraceTables

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


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # freeing millions of objects one by one would take as long as a query
