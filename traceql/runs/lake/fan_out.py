"""Adds many runs in parallel, or makes the commands for a batch system."""

import shlex
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import gethostname

from traceql.database.loading.discovery import trace_files
from traceql.database.loading.reading import prefetch
from traceql.errors import LakeError, TraceqlError
from traceql.runs.lake.add import Added, add_run, failed, noted, source_at
from traceql.runs.lake.executor import Executor, Task, TaskLost, timeout_of
from traceql.runs.lake.manifest import Entry, create_lake, entries
from traceql.runs.lake.store import MARK, absolute_uri, is_url, lock_key, store_at


def commands(sources: Sequence[Path], lake: str, *options: str) -> list[str]:
    """A shell command for each run, with options of `traceql lake add`; runs of the lake stay.

    Raises TraceqlError if a source does not exist, or its path has a line break.
    """
    found = []
    for path in dict.fromkeys(path.absolute() for path in sources):
        if not path.exists():
            raise TraceqlError(f"{path}: no such file or folder")
        words = ["traceql", "lake", "add", str(path), "--lake", absolute_uri(lake), *options]
        found.append(shlex.join(words))
        if len(found[-1].splitlines()) > 1:
            raise TraceqlError(f"{str(path)!r}: the path has a line break; rename it")
    return found


def part_files(sources: Sequence[Path], lake: str, *, again: bool) -> dict[Path, list[Path]]:
    """The files of each run that are read by separate tasks.

    Runs of one file, and runs that the lake seems to have, are left out. The results need a folder
    that all machines share, so no run is split for an object store.
    """
    if is_url(lake):
        return {}
    store = store_at(lake)
    known = entries(store) if store.size(MARK) is not None and not again else []
    found = {source: _files(source, known) for source in sources}
    return {source: files for source, files in found.items() if files}


def _files(source: Path, known: Sequence[Entry]) -> list[Path]:
    try:
        files = trace_files([source])
        sizes = {(str(file), file.stat().st_size) for file in files}
    except (TraceqlError, OSError):  # reported when the run is added
        return []
    is_known = any(
        entry.is_ok and sizes <= {(one.path, one.size_bytes) for one in entry.inputs}
        for entry in known
    )
    return [] if len(files) < 2 or is_known else files


def _add(run: Path, lake: str, **options: object) -> Added:
    if store_at(lake).size(MARK) is None:
        raise LakeError(f"{gethostname()} has no access to the lake {lake}; all machines need it")
    return add_run(run, lake, **options)  # type: ignore[arg-type]


def add_runs(
    sources: Sequence[Path],
    lake: str,
    executor: Executor,
    *,
    timeout_s: float | None = None,
    trace_processor: Path | None = None,
    again: bool = False,
    done: Callable[[int, int], None] = lambda _count, _total: None,
) -> Generator[Added, None, None]:
    """Adds runs to a lake in parallel; yields each when it is done.

    Args:
        timeout_s: timeout per run; by default 600 s, and 0.5 s for each MB of its traces.
        trace_processor: a native trace_processor_shell to load with.
        again: whether runs that the lake has are replaced.
        done: called with progress, at the beginning and before each yielded run: bytes of unpacked
            traces that are done, and of all.

    Raises:
        TraceqlError: a source does not exist, or the folder cannot be a lake; nothing was done.
        OSError: the lake cannot be written.
    """
    paths = [*dict.fromkeys(path.absolute() for path in sources)]
    processor, uri = trace_processor and trace_processor.absolute(), absolute_uri(lake)

    def task(work: Callable[[], object], reads: Path) -> Task:
        needs = resources[reads]
        limit_s = timeout_s or timeout_of(needs.size_bytes)
        return Task(work, reads, needs.memory_bytes, limit_s)

    def reading(file: Path, folder: Path) -> Task:
        _, processes, memory = resources[file]
        limits = {"memory_bytes": memory, "processes": processes}
        return task(partial(prefetch, file, folder, trace_processor=processor, **limits), file)

    def adding(run: _Run) -> Task:
        _, jobs, memory = resources[run.path]
        more = {"trace_processor": processor, "ahead": run.ahead, "again": again}
        return task(partial(_add, run.path, uri, jobs=jobs, memory=memory, **more), run.path)

    with ExitStack() as stack, executor:  # tasks end before their folder is removed
        parts = part_files(paths, lake, again=again) if executor.parts_runs else {}
        resources = executor.resources(
            [*paths, *(file for files in parts.values() for file in files)]
        )
        create_lake(store_at(lake))
        ahead = stack.enter_context(store_at(lake).drafts()) if parts else None
        total, finished = sum(resources[path].size_bytes for path in paths), 0
        done(finished, total)
        runs = []
        for number, path in enumerate(paths):
            files = parts.get(path, ())
            folder = ahead / str(number) if ahead and files else None
            runs.append(_Run(path, files, folder, len(files)))
        runs.sort(key=lambda one: -resources[one.path].size_bytes)
        for run in _ended(executor, runs, reading, adding):
            finished += resources[run.path].size_bytes
            done(finished, total)
            if isinstance(run.error, TaskLost):
                yield _lost(run.path, lake, run.error)
            elif run.error:
                raise run.error
            else:
                assert run.added
                yield run.added


@dataclass
class _Run:
    """A run in progress; `ahead` is the folder for results of files that separate tasks read."""

    path: Path
    files: Sequence[Path]
    ahead: Path | None
    unread: int
    added: Added | None = None
    error: Exception | None = None


def _ended(
    executor: Executor,
    runs: Sequence[_Run],
    reading: Callable[[Path, Path], Task],
    adding: Callable[[_Run], Task],
) -> Iterator[_Run]:
    """The runs, each when it is done. The largest begins first, so that it does not end last."""
    tasks: dict[Task, _Run] = {}

    def start(task: Task, run: _Run, *, first: bool = False) -> None:
        tasks[task] = run
        executor.start(task, first=first)

    for run in runs:
        if run.ahead:
            run.ahead.mkdir()
            for file in run.files:
                start(reading(file, run.ahead), run)
        else:
            start(adding(run), run)
    while tasks:
        ended = executor.next_result()
        run = tasks.pop(ended.task)
        if not run.unread:
            if run.ahead:
                shutil.rmtree(run.ahead, ignore_errors=True)
            run.added, run.error = ended.value, ended.error
            yield run
            continue
        run.unread -= 1  # also after an error, which the load repeats and reports
        if not run.unread:  # before other files, because results take disk space
            start(adding(run), run, first=True)


def _lost(source: Path, lake: str, error: TaskLost) -> Added:
    """Writes the failure of a run whose task is lost, unless another process is adding that run."""
    store, entry = store_at(lake), failed(source_at(source), error)
    if store.is_locked(lock_key(entry.digest)):
        return Added(entry, is_new=True)
    with store.locked(lock_key(entry.digest)):
        return noted(store, entry)
