"""Adds many runs in parallel, or makes the commands for a batch system."""

import shlex
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import gethostname

from traceql.database.loading.discovery import trace_files
from traceql.database.loading.reading import prefetch
from traceql.errors import LakeError, TraceqlError
from traceql.runs.lake.add import Added, add_run, failed, noted, source_at
from traceql.runs.lake.executor.task import Executor, Resources, Task, TaskLost, timeout_of
from traceql.runs.lake.manifest import Entry, create_lake, entries
from traceql.runs.lake.store import MARK, absolute_uri, is_url, lock_key, store_at


def commands(sources: Sequence[Path], lake: str, *options: str) -> list[str]:
    """A shell command for each run, which does nothing if the lake has the run.

    Args:
        options: of `traceql lake add`, for each command.

    Raises:
        TraceqlError: a source does not exist, or its path has a line break.
    """
    paths = dict.fromkeys(path.absolute() for path in sources)
    return [_command(path, absolute_uri(lake), options) for path in paths]


def _command(path: Path, lake: str, options: Sequence[str]) -> str:
    if not path.exists():
        raise TraceqlError(f"{path}: no such file or folder")
    line = shlex.join(["traceql", "lake", "add", str(path), "--lake", lake, *options])
    if len(line.splitlines()) > 1:
        raise TraceqlError(f"{str(path)!r}: the path has a line break; rename it")
    return line


def part_files(sources: Sequence[Path], lake: str, *, again: bool) -> dict[Path, list[Path]]:
    """The files of each run that are read by separate tasks.

    Runs of one file, and runs that the lake seems to have, are left out. The results need a folder
    that all machines share, so no run is split for an object store.

    Raises:
        LakeError: the lake cannot be read.
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
    if len(files) < 2 or any(one.is_ok and sizes <= _sizes(one) for one in known):
        return []
    return files


def _sizes(entry: Entry) -> set[tuple[str, int]]:
    return {(one.path, one.size_bytes) for one in entry.inputs}


@dataclass(frozen=True)
class Work:
    """How runs are added.

    Attributes:
        lake: absolute path or URL.
        timeout_s: timeout of a task; by default by the size of what it reads.
        trace_processor: a native trace_processor_shell to load with.
        again: whether runs that the lake has are replaced.
    """

    lake: str
    timeout_s: float | None
    trace_processor: Path | None
    again: bool

    def reading(self, file: Path, resources: Resources, folder: Path) -> Task:
        """Reads a file of a run into a folder."""
        return self._task(
            partial(
                prefetch,
                file,
                folder,
                trace_processor=self.trace_processor,
                memory_bytes=resources.memory_bytes,
                processes=resources.processors,
            ),
            file,
            resources,
        )

    def adding(self, run: Path, resources: Resources, ahead: Path | None = None) -> Task:
        """Adds a run, whose files may have been read into a folder."""
        return self._task(
            partial(
                _add,
                run,
                self.lake,
                jobs=resources.processors,
                memory=resources.memory_bytes,
                trace_processor=self.trace_processor,
                ahead=ahead,
                again=self.again,
            ),
            run,
            resources,
        )

    def _task(
        self, work: "partial[Added] | partial[None]", reads: Path, resources: Resources
    ) -> Task:
        timeout_s = self.timeout_s or timeout_of(resources.size_bytes)
        return Task(work, reads, resources.memory_bytes, timeout_s)


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
    work = Work(
        absolute_uri(lake), timeout_s, trace_processor and trace_processor.absolute(), again=again
    )
    with ExitStack() as stack, executor:  # tasks end before their folder is removed
        parts = part_files(paths, lake, again=again) if executor.parts_runs else {}
        resources = executor.resources(
            [*paths, *(file for files in parts.values() for file in files)]
        )
        create_lake(store_at(lake))
        ahead = stack.enter_context(store_at(lake).drafts()) if parts else None
        total, finished = sum(resources[path].size_bytes for path in paths), 0
        done(finished, total)
        for run in _ended(executor, work, resources, _runs(paths, parts, ahead)):
            finished += resources[run.path].size_bytes
            done(finished, total)
            yield _added(run, lake)


@dataclass
class _Run:
    """A run in progress.

    Attributes:
        files: read by separate tasks.
        ahead: the folder of their results.
        unread: number of remaining files.
    """

    path: Path
    files: Sequence[Path]
    ahead: Path | None
    unread: int
    added: Added | None = None
    error: Exception | None = None


def _runs(
    paths: Sequence[Path], parts: Mapping[Path, Sequence[Path]], ahead: Path | None
) -> Iterator[_Run]:
    for number, path in enumerate(paths):
        files = parts.get(path, ())
        folder = ahead / str(number) if ahead and files else None
        yield _Run(path, files, folder, len(files))


def _ended(
    executor: Executor, work: Work, resources: Mapping[Path, Resources], runs: Iterator[_Run]
) -> Iterator[_Run]:
    """The runs, each when it is done. The largest begins first, so that it does not end last."""
    tasks: dict[Task, _Run] = {}

    def start(task: Task, run: _Run, *, first: bool = False) -> None:
        tasks[task] = run
        executor.start(task, first=first)

    for run in sorted(runs, key=lambda one: -resources[one.path].size_bytes):
        if run.ahead:
            run.ahead.mkdir()
            for file in run.files:
                start(work.reading(file, resources[file], run.ahead), run)
        else:
            start(work.adding(run.path, resources[run.path]), run)
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
            start(work.adding(run.path, resources[run.path], run.ahead), run, first=True)


def _added(run: _Run, lake: str) -> Added:
    if isinstance(run.error, TaskLost):
        return _lost(run.path, lake, run.error)
    if run.error:
        raise run.error
    assert run.added
    return run.added


def _lost(source: Path, lake: str, error: TaskLost) -> Added:
    """Writes the failure of a run whose task is lost, unless another process is adding that run."""
    store, entry = store_at(lake), failed(source_at(source), error)
    if store.is_locked(lock_key(entry.digest)):
        return Added(entry, is_new=True)
    with store.locked(lock_key(entry.digest)):
        return noted(store, entry)
