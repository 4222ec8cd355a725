"""Lets a load read its files in its own process, instead of starting one for each file."""

import threading
from collections.abc import Collection
from pathlib import Path

from traceql.errors import TraceqlError
from traceql.loading import reading
from traceql.reader import worker

_one_at_a_time = threading.Lock()


def read_files_here() -> None:
    setattr(reading.Workers, "read", _read)  # noqa: B010  (mypy forbids to assign a method)


def _read(
    workers: reading.Workers,
    file: Path,
    folder: Path,
    nonce: str,
    loaded: Collection[str],
    trace_processor: Path | None,
) -> None:
    """Like the reading process, which tells an OSError or a MemoryError in one line."""
    with _one_at_a_time:
        try:
            worker._read(file, folder, nonce, loaded, trace_processor)
        except (OSError, MemoryError) as error:
            _, message = worker._told(error, str(file))
            raise TraceqlError(message) from None
