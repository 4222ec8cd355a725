"""Adds many runs at once.

What a task does is `add_run`: a function of a path that returns a manifest row. Where it runs, the
executor decides.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from socket import gethostname

from traceql.errors import LakeError
from traceql.lake.add import Added, add_run, failed, noted
from traceql.lake.executor.task import Ended, Executor, Room, Task, TaskLost
from traceql.lake.layout import MARK, lock_key
from traceql.lake.manifest import create_lake
from traceql.lake.places import store_at
from traceql.lake.sizes import timeout_of
from traceql.lake.source import source_at


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
    with executor:
        rooms = executor.rooms([path.absolute() for path in sources])
        create_lake(store_at(lake))
        place = lake if "://" in lake else str(Path(lake).absolute())
        native = trace_processor and trace_processor.absolute()
        add = partial(_add, lake=place, trace_processor=native, again=again)
        for task in _tasks(rooms, add, timeout_s):
            executor.start(task)
        total, finished = sum(room.size_bytes for room in rooms.values()), 0
        done(finished, total)
        for _ in rooms:
            ended = executor.ended()
            finished += rooms[ended.task.reads].size_bytes
            done(finished, total)
            yield _added(ended, place)


def _tasks(
    rooms: Mapping[Path, Room], add: Callable[..., Added], timeout_s: float | None
) -> list[Task]:
    """A task for each run, the longest first, so that it is not the last."""
    return [
        Task(
            partial(add, path, jobs=room.processors, memory=room.memory_bytes),
            path,
            room.memory_bytes,
            timeout_s or timeout_of(room.size_bytes),
        )
        for path, room in sorted(rooms.items(), key=lambda item: -item[1].size_bytes)
    ]


def _add(source: Path, *, lake: str, **options: object) -> Added:
    if store_at(lake).size(MARK) is None:
        raise LakeError(f"{gethostname()} does not see the lake {lake}; all machines need it there")
    return add_run(source, lake, **options)  # type: ignore[arg-type]


def _added(ended: Ended, lake: str) -> Added:
    if isinstance(ended.error, TaskLost):
        return _lost(ended.task.reads, lake, ended.error)
    if ended.error:
        raise ended.error
    added: Added = ended.value
    return added


def _lost(source: Path, lake: str, error: TaskLost) -> Added:
    """Notes a run whose task is lost, unless somebody else adds that run now."""
    store, entry = store_at(lake), failed(source_at(source), error)
    if store.is_locked(lock_key(entry.digest)):
        return Added(entry, is_new=True)
    with store.locked(lock_key(entry.digest)):
        return noted(store, entry)
