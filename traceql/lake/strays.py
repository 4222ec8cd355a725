"""Files of tables that no run names: left by a process that was killed, or by a compaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from traceql.lake.layout import MANIFEST, TABLE, lock_key_of_run, run_of
from traceql.lake.manifest import Entry, entries, files_of, read_row, row_names
from traceql.lake.store import Store

SHARED_LOCK = "shared"  # held by whoever writes or removes files of several runs


def strays(store: Store, found: Sequence[Entry]) -> list[str]:
    """The files that no run names, and that nobody is writing now."""
    by_lock = _by_lock(store, found)
    return [name for lock, names in by_lock.items() if not store.is_locked(lock) for name in names]


def remove_strays(store: Store) -> list[str]:
    """Removes them, unless a run names them by now; waits for those that are being written."""
    removed = []
    for lock, names in _by_lock(store, entries(store)).items():
        with store.locked(lock):
            named = files_of(_of_lock(store, lock))
            for name in names:
                if name not in named:
                    store.remove(name)
                    removed.append(name)
    return removed


def remove_unnamed(store: Store, names: Iterable[str]) -> None:
    """Removes those of these files that no run names any more. The caller holds no lock."""
    with store.locked(SHARED_LOCK):
        named = files_of(entries(store))
        for name in names:
            if name not in named:
                store.remove(name)


def _by_lock(store: Store, found: Sequence[Entry]) -> dict[str, list[str]]:
    """The files that no run names, by the lock that whoever writes them holds."""
    named = files_of(found)
    unknown = defaultdict(list)
    for name in store.names(""):
        if name.startswith(TABLE) and name not in named:
            run = run_of(name)
            unknown[SHARED_LOCK if run is None else lock_key_of_run(run)].append(name)
    return unknown


def _of_lock(store: Store, lock: str) -> Iterable[Entry]:
    """The runs that may name files which are written under a lock."""
    if lock == SHARED_LOCK:
        return entries(store)
    names = [name for name in row_names(store) if name.startswith(f"{MANIFEST}/{lock}")]
    return [entry for entry in (read_row(store, name) for name in names) if entry]
