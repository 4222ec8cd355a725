"""Adds many runs at once, or prints the commands for a batch system."""

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
from traceql.runs.lake.executor.task import Executor, Room, Task, TaskLost, timeout_of
from traceql.runs.lake.manifest import Entry, create_lake, entries
from traceql.runs.lake.store import MARK, anywhere, is_url, lock_key, store_at


def commands(sources: Sequence[Path], lake: str, *options: str) -> list[str]:
    """A line of shell for each run, which does nothing if the lake has the run.

    Args:
        options: of `traceql lake add`, which each command gets.

    Raises:
        TraceqlError: a source does not exist, or its path does not fit into a line.
    """
    paths = dict.fromkeys(path.absolute() for path in sources)
    return [_command(path, anywhere(lake), options) for path in paths]


def _command(path: Path, lake: str, options: Sequence[str]) -> str:
    if not path.exists():
        raise TraceqlError(f"{path}: no such file or folder")
    line = shlex.join(["traceql", "lake", "add", str(path), "--lake", lake, *options])
    if len(line.splitlines()) > 1:
        raise TraceqlError(f"{str(path)!r}: the path has a line break; rename it")
    return line


def part_files(sources: Sequence[Path], lake: str, *, again: bool) -> dict[Path, list[Path]]:
    """The files of each run that are to be read one by one.

    A run is left out if it is one file, or if the lake seems to have it. What is read needs a
    folder that all machines see, so that none is parted for an object store.

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
    except (TraceqlError, OSError):  # which whoever adds it will say
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
        lake: as all machines name it.
        timeout_s: how long a task may run; None to go by the size of what it reads.
        trace_processor: a native trace_processor_shell to load with.
        again: whether runs that the lake has are added anew.
    """

    lake: str
    timeout_s: float | None
    trace_processor: Path | None
    again: bool

    def reading(self, file: Path, room: Room, folder: Path) -> Task:
        """Reads a file of a run into a folder."""
        return self._task(
            partial(
                prefetch,
                file,
                folder,
                trace_processor=self.trace_processor,
                memory_bytes=room.memory_bytes,
                processes=room.processors,
            ),
            file,
            room,
        )

    def adding(self, run: Path, room: Room, ahead: Path | None = None) -> Task:
        """Adds a run, of which files may have been read into a folder."""
        return self._task(
            partial(
                _add,
                run,
                self.lake,
                jobs=room.processors,
                memory=room.memory_bytes,
                trace_processor=self.trace_processor,
                ahead=ahead,
                again=self.again,
            ),
            run,
            room,
        )

    def _task(self, work: "partial[Added] | partial[None]", reads: Path, room: Room) -> Task:
        timeout_s = self.timeout_s or timeout_of(room.size_bytes)
        return Task(work, reads, room.memory_bytes, timeout_s)


def _add(run: Path, lake: str, **options: object) -> Added:
    if store_at(lake).size(MARK) is None:
        raise LakeError(f"{gethostname()} does not see the lake {lake}; all machines need it there")
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
    """Adds runs to a lake, several at once; yields each when it is done.

    Args:
        timeout_s: how long a run may take; by default 600 s, and 0.5 s for each MB of its traces.
        trace_processor: a native trace_processor_shell to load with.
        again: whether runs that the lake has are added anew.
        done: called for progress, at the beginning and before each run that is yielded, with how
            many bytes of traces are done, and of how many, unpacked.

    Raises:
        TraceqlError: a source does not exist, or the folder cannot be a lake; nothing was done.
        OSError: the lake cannot be written.
    """
    paths = [*dict.fromkeys(path.absolute() for path in sources)]
    work = Work(
        anywhere(lake), timeout_s, trace_processor and trace_processor.absolute(), again=again
    )
    with ExitStack() as stack, executor:  # whose tasks end before their folder is removed
        parts = part_files(paths, lake, again=again) if executor.parts_runs else {}
        rooms = executor.rooms([*paths, *(file for files in parts.values() for file in files)])
        create_lake(store_at(lake))
        ahead = stack.enter_context(store_at(lake).drafts()) if parts else None
        total, finished = sum(rooms[path].size_bytes for path in paths), 0
        done(finished, total)
        for run in _ended(executor, work, rooms, _runs(paths, parts, ahead)):
            finished += rooms[run.path].size_bytes
            done(finished, total)
            yield _added(run, lake)


@dataclass
class _Run:
    """A run on its way into the lake.

    Attributes:
        files: those that are read by tasks of their own.
        ahead: the folder into which they are read.
        unread: how many of them are left.
        added: what was done in the end.
        error: why that is not known.
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
    executor: Executor, work: Work, rooms: Mapping[Path, Room], runs: Iterator[_Run]
) -> Iterator[_Run]:
    """The runs, each when it is done. The longest begins first, so that it is not the last."""
    tasks: dict[Task, _Run] = {}

    def start(task: Task, run: _Run, *, first: bool = False) -> None:
        tasks[task] = run
        executor.start(task, first=first)

    for run in sorted(runs, key=lambda one: -rooms[one.path].size_bytes):
        if run.ahead:
            run.ahead.mkdir()
            for file in run.files:
                start(work.reading(file, rooms[file], run.ahead), run)
        else:
            start(work.adding(run.path, rooms[run.path]), run)
    while tasks:
        ended = executor.ended()
        run = tasks.pop(ended.task)
        if not run.unread:
            if run.ahead:
                shutil.rmtree(run.ahead, ignore_errors=True)
            run.added, run.error = ended.value, ended.error
            yield run
            continue
        run.unread -= 1  # with success or not: what is not there is read by the load, which tells
        if not run.unread:  # before other files are read, because what is read takes room
            start(work.adding(run.path, rooms[run.path], run.ahead), run, first=True)


def _added(run: _Run, lake: str) -> Added:
    if isinstance(run.error, TaskLost):
        return _lost(run.path, lake, run.error)
    if run.error:
        raise run.error
    assert run.added
    return run.added


def _lost(source: Path, lake: str, error: TaskLost) -> Added:
    """Notes a run whose task is lost, unless somebody else adds that run now."""
    store, entry = store_at(lake), failed(source_at(source), error)
    if store.is_locked(lock_key(entry.digest)):
        return Added(entry, is_new=True)
    with store.locked(lock_key(entry.digest)):
        return noted(store, entry)
