"""Lets a load read its files in its own process, instead of starting one for each file."""

import threading
from collections.abc import Collection
from pathlib import Path

from traceql.errors import DatabaseError, TraceqlError
from traceql.loading import reading
from traceql.reader import worker

_one_at_a_time = threading.Lock()


def read_files_here() -> None:
    setattr(reading._Workers, "read", _read)  # noqa: B010  (mypy forbids to assign a method)


def _read(
    workers: reading._Workers,
    file: Path,
    folder: Path,
    loaded: Collection[str],
    trace_processor: Path | None,
) -> None:
    """Like the reading process, which turns an OSError into a DatabaseError."""
    with _one_at_a_time:
        try:
            worker._read(file, folder, loaded, trace_processor)
        except TraceqlError:
            raise
        except OSError as error:
            raise DatabaseError(f"cannot write {folder}: {error.strerror}") from None
