"""Reads trace files into Arrow files: small ones in this process, others in parallel processes."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa

from traceql import errors
from traceql.readers.contract import ReadMode, unpacked_bytes
from traceql.readers.dialects.facts import FileFacts
from traceql.readers.dialects.registry import file_facts
from traceql.readers.registry import reader_of
from traceql.readers.trace_processor.module_cache import native_binary
from traceql.readers.worker import RESULT, Request, failure, read, traceql_error
from traceql.util.resources import cache_folder

_SMALL_BYTES = 32 << 20  # of JSON, of all files together
# -P: do not import modules from the current folder of the user.
WORKER = (sys.executable, "-P", "-m", "traceql.readers.worker")

# glibc uses large pages and keeps freed memory, because a worker ends soon; Arrow allocates from
# glibc too. OpenBLAS is not used and starts no threads.
ENVIRONMENT = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:"
    "glibc.malloc.trim_threshold=8589934592:glibc.malloc.top_pad=67108864",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class FileRead:
    """The recording of one rank in a file, read into a folder.

    `folder` is None if the file is already in the database, or has no recording.
    """

    path: Path
    sha256: str
    size_bytes: int
    folder: Path | None = None
    number: int = 0  # among the recordings in the file
    reader: str = ""
    format: str = ""
    dialect: str = ""
    metadata: dict[str, Any] | None = None
    first_ts: int = 0  # ns, in the file's own time; of events with a possible time
    last_ts: int = -1  # ns; before first_ts if the file has no events
    lowest_ts: int = 0  # ns; of all events
    highest_ts: int = 0  # ns; of all events
    is_kept: bool = False  # whether the folder is kept for another attempt

    @cached_property
    def facts(self) -> FileFacts:
        """What the file states about itself and its job."""
        return file_facts(self.dialect, self.metadata or {})

    def rows(self, name: str) -> int:
        """The number of rows of one of the tables that the reader wrote."""
        return sum(part.num_rows for _, part in self.parts(name))

    def take(self, name: str) -> Iterator[pa.Table]:
        """The parts of one of the tables, mapped from disk; they are removed unless kept."""
        for file, part in self.parts(name):
            if not self.is_kept:
                file.unlink()
            yield part

    def parts(self, name: str) -> Iterator[tuple[Path, pa.Table]]:
        """The parts of one of the tables, mapped from disk, with their files."""
        assert self.folder is not None
        for file in sorted(self.folder.glob(f"{name}.*.arrow")):
            with pa.memory_map(str(file)) as source:
                yield file, pa.ipc.open_file(source).read_all()


def read_files(
    files: Sequence[Path],
    workspace: Path,
    *,
    named: Collection[Path],
    loaded: Collection[str],
    prefetched: Mapping[Path, Sequence[FileRead]],
    trace_processor: Path | None,
    mode: ReadMode,
    memory_bytes: int,
    jobs: int | None,
    done: Callable[[int], None],
    meanwhile: Callable[[], None],
) -> tuple[list[FileRead], list[errors.NotATrace]]:
    """Reads each file into a folder of `workspace`.

    Returns the recordings that were read, in the order of `files`, and an error for each file that
    was skipped because it is not a trace.

    Args:
        named: files that the user named; it is an error if one of them is not a trace, whereas
            other files are skipped.
        loaded: SHA-256 of the files that are already in the database, which are not read again.
        meanwhile: called once while other processes read.

    Raises:
        TraceqlError: the first error that any file raised.
    """
    processes = jobs or os.cpu_count() or 1
    unread = [file for file in files if file not in prefetched]
    at_once = min(processes, max(1, len(unread)))
    native = str(trace_processor) if trace_processor else None
    resources = memory_bytes // at_once, max(1, processes // at_once)
    shared = token_hex(8), list(loaded), native, mode, *resources
    requests = {
        file: Request(str(file), str(workspace / str(i)), *shared) for i, file in enumerate(unread)
    }
    others: dict[Path, errors.NotATrace] = {}
    are_small = not native_binary(trace_processor) and _are_small(unread)
    outcomes = _read_here(requests) if are_small else _by_workers(requests, at_once, meanwhile)
    with closing(outcomes) as reading:
        for count, (file, error) in enumerate(reading, start=1):
            if isinstance(error, errors.NotATrace):
                others[file] = error
            if error and (file not in others or file in named or len(others) == len(files)):
                raise error
            done(count)
    found = [
        recording
        for file in files
        if file not in others
        for recording in prefetched.get(file) or results(file, requests[file])
    ]
    return found, list(others.values())


def _are_small(files: Sequence[Path]) -> bool:
    """Whether reading files takes less time than starting processes."""
    left = _SMALL_BYTES
    for file in files:
        try:
            parts = reader_of(file).files(file)
            left -= sum(map(unpacked_bytes, parts))
        except OSError:  # reading raises it again
            continue
        if left < 0 or not parts:
            return False
    return True


Outcomes = Generator[tuple[Path, BaseException | None]]


def _read_here(requests: Mapping[Path, Request]) -> Outcomes:
    """Reads files in this process; yields each with its error, if any."""
    for file, request in requests.items():
        error = None
        try:
            read(request)
        except Exception as raised:  # a bug of a reader, too, becomes one line
            error = traceql_error(raised, request.file)
        yield file, error


def _by_workers(
    requests: Mapping[Path, Request], at_once: int, meanwhile: Callable[[], None]
) -> Outcomes:
    """Reads files in parallel; yields each when it has been read, with its error, if any."""
    workers = Workers()
    with ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(workers.read, request): file for file, request in requests.items()}
        try:
            meanwhile()
            for future in as_completed(running):
                yield running[future], future.exception()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop()
            raise


class Workers:
    """The processes that are reading files; they end with this process, even if it is killed."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        for process in tuple(self._running):
            _kill(process)

    def read(self, request: Request) -> None:
        """Reads a file in a process; raises the error of the process."""
        pipe = subprocess.PIPE
        # Without a cache folder, one process compiles the engine for all in their common folder.
        shared = {} if cache_folder() else {"TMPDIR": str(Path(request.folder).parent)}
        process = subprocess.Popen(
            WORKER,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=ENVIRONMENT | os.environ | shared,
            process_group=0,  # with the native trace processor that it may start
        )
        self._running.add(process)
        if self._stopped:
            _kill(process)
        # Standard input stays open: the process ends when it is closed.
        lifeline, process.stdin = process.stdin, None  # `communicate` would close it
        assert lifeline is not None
        with suppress(BrokenPipeError), closing(lifeline):
            with suppress(BrokenPipeError):  # it has ended; its output has the reason
                lifeline.write(f"{json.dumps(request)}\n")
                lifeline.flush()
            output, errors_ = process.communicate()
        self._running.discard(process)
        if process.returncode:
            raise _failure(request.file, process.returncode, output, errors_)


def _kill(process: "subprocess.Popen[str]") -> None:
    """Kills a process with its group."""
    if os.name == "posix":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _failure(file: str, status: int, output: str, errors_: str) -> errors.TraceqlError:
    try:
        name, message = json.loads(output)
    except ValueError:
        if status < 0:
            return errors.TraceqlError(
                f"{file}: the reading process was killed, perhaps for lack of memory; try --jobs 1"
            )
        return failure(file, errors_)
    error: errors.TraceqlError = getattr(errors, name)(message)
    return error


def results(file: Path, request: Request) -> list[FileRead]:
    """The result of a process: a recording for each rank in the file.

    Raises:
        OSError: the process has not succeeded.
        TraceqlError: it is not the result of this request.
    """
    folder = Path(request.folder)
    answer = json.loads((folder / RESULT).read_text())
    if (answer["nonce"], answer["path"]) != (request.nonce, request.file):
        raise errors.TraceqlError(f"{file}: another process wrote into this load; try again")
    result = answer["result"]
    return [
        FileRead(file, folder=folder / str(recording["number"]), **result, **recording)
        for recording in result.pop("recordings", ())
    ] or [FileRead(file, **result)]


_NONCE = "prefetched"


def prefetch(
    file: Path, folder: Path, *, trace_processor: Path | None, memory_bytes: int, processes: int
) -> None:
    """Reads a file before a load, atomically, into a folder for all files of the load.

    Args:
        file: as `traceql.database.loading.discovery` names it.

    Raises:
        TraceqlError: the file cannot be read.
    """
    draft = folder / f"draft-{token_hex(8)}"
    request = Request(str(file), str(draft), _NONCE, memory_bytes=memory_bytes, processes=processes)
    native = str(trace_processor) if trace_processor else None
    Workers().read(request._replace(trace_processor=native))
    with suppress(OSError):  # another process has read it in the meantime
        draft.rename(_prefetched_path(file, folder))


def prefetched_recordings(
    files: Sequence[Path], folder: Path, loaded: Collection[str]
) -> dict[Path, list[FileRead]]:
    """The recordings of files that were prefetched into a folder, except loaded ones."""
    found = {}
    for file in files:
        with suppress(FileNotFoundError):
            read = results(file, Request(str(file), str(_prefetched_path(file, folder)), _NONCE))
            if read[0].sha256 not in loaded:
                found[file] = [replace(one, is_kept=True) for one in read]
    return found


def _prefetched_path(file: Path, folder: Path) -> Path:
    return folder / hashlib.sha256(bytes(file)).hexdigest()[:16]
