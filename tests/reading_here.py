"""Small trace files are read without a process of their own, which takes longer to start."""

import threading
from pathlib import Path

import pytest

from traceql.loading import reading
from traceql.reader import worker

_SMALL_BYTES = 8_000_000  # a process of its own takes 0.5 s of CPU more
_in_a_process = reading.Workers.read
_one_at_a_time = threading.Lock()


def read_small_files_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading.Workers, "read", _read)


def read_all_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading.Workers, "read", _in_a_process)


def _read(workers: reading.Workers, request: worker.Request) -> None:
    if Path(request.file).stat().st_size > _SMALL_BYTES:
        _in_a_process(workers, request)
        return
    with _one_at_a_time:
        worker.read(request)
