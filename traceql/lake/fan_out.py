"""Adds many runs at once, each in a process of its own.

What a process does is `add_run`: a function of a path that returns a manifest row. How many run at
once, and where, is decided here alone.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from traceql.errors import EngineError
from traceql.lake.add import Added, add_run, failed, noted
from traceql.lake.layout import lock_key
from traceql.lake.manifest import create_lake
from traceql.lake.places import store_at
from traceql.lake.source import require_path, source_at

# Memory that a load takes for each byte of a trace, and how much larger a trace is than its gzip.
_MEMORY_OF_BYTE = 3
_UNPACKED = 20
_KILLED = "the process that loaded it was killed, perhaps for lack of memory; try --jobs 1"


def add_runs(
    sources: Sequence[Path],
    lake: str | Path,
    *,
    jobs: int | None = None,
    trace_processor: Path | None = None,
    again: bool = False,
) -> Iterator[Added]:
    """Adds runs to a lake, several at once; yields each when it is done.

    Args:
        jobs: how many at once; by default as many as processors and memory permit.
        trace_processor: a native trace_processor_shell to load with.
        again: whether runs that the lake has are added anew.

    Raises:
        TraceqlError: a source does not exist, or the folder cannot be a lake; nothing was done.
        OSError: the lake cannot be written.
    """
    for source in sources:
        require_path(source)
    create_lake(store_at(lake))
    at_once = jobs or _jobs(sources)
    add = partial(
        add_run,
        lake=lake,
        jobs=max(1, (os.cpu_count() or 1) // at_once),
        trace_processor=trace_processor,
        again=again,
    )
    if at_once == 1:
        yield from map(add, sources)
        return
    killed = []
    for source, future in _submitted(add, sources, at_once):
        try:
            yield future.result()
        except BrokenProcessPool:  # the death of one process ends the others
            killed.append(source)
    for source in killed:
        ((_, future),) = _submitted(add, [source], 1)
        try:
            yield future.result()
        except BrokenProcessPool:
            yield _killed(source, lake)


def _submitted(
    add: Callable[[Path], Added], sources: Sequence[Path], at_once: int
) -> Iterator[tuple[Path, Future[Added]]]:
    """The sources and what became of them, in the order in which they are done."""
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        futures: dict[Future[Added], Path] = {}
        for source in sorted(sources, key=_bytes, reverse=True):  # the longest is not the last
            with suppress(BrokenProcessPool):
                futures[pool.submit(add, source)] = source
                continue
            broken: Future[Added] = Future()
            broken.set_exception(BrokenProcessPool())
            futures[broken] = source
        try:
            for future in as_completed(futures):
                yield futures[future], future
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _killed(source: Path, lake: str | Path) -> Added:
    store, found = store_at(lake), source_at(source)
    with store.locked(lock_key(found.digest)):
        return noted(store, failed(found, EngineError(_KILLED)))


def _jobs(sources: Sequence[Path]) -> int:
    """How many runs to load at once: one per processor, if they fit into memory together."""
    need = max(_MEMORY_OF_BYTE * _bytes(source) for source in sources)
    fit = _memory_bytes() // need if need else len(sources)
    return max(1, min(len(sources), os.cpu_count() or 1, fit))


def _bytes(source: Path) -> int:
    """Bytes of the traces at a path, unpacked, about."""
    files = [source] if source.is_file() else [one for one in source.rglob("*") if one.is_file()]
    return sum(one.stat().st_size * (_UNPACKED if one.suffix == ".gz" else 1) for one in files)


def _memory_bytes() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 * 2**30
