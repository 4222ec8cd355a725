"""Reads trace files in parallel processes, each of which leaves its tables on disk."""

import gc
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from traceql import errors
from traceql.loading.discovery import is_native
from traceql.reader.tables import SCHEMAS, Reader, TraceTables

_RESULT = "result.json"
_BATCH_ROWS = 32_768  # DuckDB scans batches in parallel


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
        """One of `SCHEMAS`, mapped from disk."""
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


def request(
    file: Path, folder: Path, loaded: Collection[str], trace_processor: Path | None
) -> list[Any]:
    """What the reading process wants to know, as JSON on its stdin."""
    return [str(file), str(folder), list(loaded), trace_processor and str(trace_processor)]


def _read_in_process(
    file: Path, folder: Path, loaded: Collection[str], trace_processor: Path | None
) -> None:
    process = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(request(file, folder, loaded, trace_processor)),
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


def _read(file: Path, folder: Path, loaded: Collection[str], trace_processor: Path | None) -> None:
    folder.mkdir()
    try:
        with file.open("rb") as opened:
            sha256 = file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise errors.TraceNotFound(f"{file}: {error.strerror}") from None
    result: dict[str, Any] = {"sha256": sha256, "size_bytes": file.stat().st_size}
    if sha256 not in loaded:
        trace = _reader(file)(file, trace_processor=trace_processor)
        for name, schema in SCHEMAS.items():
            with pa.ipc.new_file(folder / f"{name}.arrow", schema) as sink:
                sink.write_table(trace.tables[name], max_chunksize=_BATCH_ROWS)
        result |= {"reader": trace.reader, "format": trace.format, "metadata": trace.metadata}
        result |= _extent(trace)
    (folder / _RESULT).write_text(json.dumps(result))


def _extent(trace: TraceTables) -> dict[str, int]:
    slices, instants = trace.tables["slice"], trace.tables["instant"]
    starts = np.concatenate((slices["ts"].to_numpy(), instants["ts"].to_numpy()))
    ends = slices["ts"].to_numpy() + np.maximum(slices["dur"].to_numpy(), 0)
    if not len(starts):
        return {}
    last_ts = max(starts.max(), ends.max(initial=starts.max()))
    return {"first_ts": int(starts.min()), "last_ts": int(last_ts)}


def _reader(file: Path) -> Reader:
    if is_native(file):
        from traceql.reader.native import read_native

        return read_native
    from traceql.reader.kineto import read_kineto

    return read_kineto


def _result(file: Path, folder: Path) -> FileRead:
    result = json.loads((folder / _RESULT).read_text())
    return FileRead(file, folder=folder if "reader" in result else None, **result)


def _hide_pandas() -> None:
    """Keeps pyarrow from importing pandas, for which this process has no use, in 0.3 s."""
    stand_in = ModuleType("pandas")
    stand_in.__dict__["__version__"] = "0"  # too old for pyarrow, which says so
    sys.modules["pandas"] = stand_in
    warnings.filterwarnings("ignore", "pyarrow requires pandas")


def _main() -> int:
    """Serves one request from stdin; a TraceqlError goes to stdout as [class, message]."""
    _hide_pandas()
    gc.disable()  # it would walk millions of live events again and again
    file, folder, loaded, trace_processor = json.load(sys.stdin)
    try:
        _read(Path(file), Path(folder), loaded, trace_processor and Path(trace_processor))
    except errors.TraceqlError as error:
        json.dump([type(error).__name__, str(error)], sys.stdout)
        return 1
    except OSError as error:
        json.dump(["DatabaseError", f"cannot write {folder}: {error.strerror}"], sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
