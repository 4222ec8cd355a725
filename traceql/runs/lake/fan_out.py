"""Adds many runs at once.

What a task does is `add_run`: a function of a path that returns a manifest row. Where it runs, the
executor decides. If machines share the work on a run, tasks before that one read a file each.
"""

import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from traceql.runs.lake.add import Added, failed, noted
from traceql.runs.lake.executor.task import Executor, Room, Task, TaskLost
from traceql.runs.lake.layout import lock_key
from traceql.runs.lake.manifest import create_lake
from traceql.runs.lake.parts import part_files
from traceql.runs.lake.places import anywhere, store_at
from traceql.runs.lake.source import source_at
from traceql.runs.lake.work import Work


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
