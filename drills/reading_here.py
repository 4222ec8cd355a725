"""Lets a load read its files in its own process, instead of starting one for each file."""

import threading

from traceql.errors import TraceqlError
from traceql.loading import reading
from traceql.reader import worker

_one_at_a_time = threading.Lock()


def read_files_here() -> None:
    setattr(reading.Workers, "read", _read)  # noqa: B010  (mypy forbids to assign a method)


def _read(_workers: reading.Workers, request: worker.Request) -> None:
    """Like the reading process, which tells an OSError or a MemoryError in one line."""
    with _one_at_a_time:
        try:
            worker.read(request)
        except (OSError, MemoryError) as error:
            _, message = worker.told(error, request)
            raise TraceqlError(message) from None
