"""Reads trace files in parallel processes, each of which leaves its tables on disk."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceql import errors
from traceql.reader.worker import RESULT

WORKER = (sys.executable, "-m", "traceql.reader.worker")


@dataclass(frozen=True)
class FileRead:
    """A file whose tables lie in a folder, or which was loaded before (`folder` is None)."""

    path: Path
    sha256: str
    size_bytes: int
    folder: Path | None = None
    reader: str = ""
    format: str = ""
    metadata: dict[str, Any] | None = None
    first_ts: int = 0  # ns, in the file's own time
    last_ts: int = -1  # before first_ts where the file has no events

    def table(self, name: str) -> pa.Table:
        """One of the reader's tables, mapped from disk."""
        assert self.folder is not None
        with pa.memory_map(str(self.folder / f"{name}.arrow")) as source:
            return pa.ipc.open_file(source).read_all()


def read_files(
    files: Sequence[Path],
    workspace: Path,
    *,
    loaded: Collection[str],
    trace_processor: Path | None,
    jobs: int | None,
    done: Callable[[Path], None],
) -> list[FileRead]:
    """Reads each file into a folder of `workspace`; results are in the order of `files`.

    Args:
        loaded: sha256 of files to skip.
        jobs: processes at once; None for one per processor.
        done: called with each file when it is read.

    Raises:
        TraceqlError: the first that any file raised.
    """
    folders = [workspace / str(i) for i in range(len(files))]
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        running = {
            pool.submit(_read_in_process, file, folder, loaded, trace_processor): file
            for file, folder in zip(files, folders, strict=True)
        }
        try:
            for future in as_completed(running):
                future.result()
                done(running[future])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [_result(file, folder) for file, folder in zip(files, folders, strict=True)]


def request(file: Path, folder: Path, loaded: Collection[str], trace_processor: Path | None) -> str:
    """What the reading process wants to know on its stdin."""
    native = trace_processor and str(trace_processor)
    return json.dumps([str(file), str(folder), list(loaded), native])


def _read_in_process(
    file: Path, folder: Path, loaded: Collection[str], trace_processor: Path | None
) -> None:
    process = subprocess.run(
        WORKER,
        input=request(file, folder, loaded, trace_processor),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode == 0:
        return
    try:
        name, message = json.loads(process.stdout)
    except ValueError:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        killed = "killed, out of memory?" if process.returncode < 0 else last
        raise errors.TraceqlError(f"{file}: reading failed ({killed}); try fewer --jobs") from None
    raise getattr(errors, name)(message)


def _result(file: Path, folder: Path) -> FileRead:
    result = json.loads((folder / RESULT).read_text())
    return FileRead(file, folder=folder if "reader" in result else None, **result)
