"""Files of tables that no run names: left by a process that was killed, or by a compaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from traceql.runs.lake.layout import MANIFEST, TABLE, lock_key_of_run, run_of
from traceql.runs.lake.manifest import Entry, entries, files_of, read_row, row_names
from traceql.runs.lake.store import Store

SHARED_LOCK = "shared"  # held by whoever writes or removes files of several runs


def strays(store: Store, found: Sequence[Entry]) -> list[str]:
    """The files that no run names, and that nobody is writing now."""
    by_lock = _by_lock(_unnamed(store, found))
    free = [names for lock, names in by_lock.items() if not store.is_locked(lock)]
    return [name for names in free for name in names if store.is_settled(name)]


def remove_strays(store: Store) -> list[str]:
    """Removes the files that no run names; waits for those that are being written."""
    return remove_unnamed(store, _unnamed(store, entries(store)))


def remove_unnamed(store: Store, names: Iterable[str]) -> list[str]:
    """Removes those of these files that no run names by now. The caller holds no lock.

    Returns:
        The files that are gone.
    """
    removed = []
    for lock, of_lock in _by_lock(names).items():
        with store.locked(lock):
            named = files_of(_of_lock(store, lock))
            for name in of_lock:
                if name not in named and store.is_settled(name):
                    store.remove(name)
                    removed.append(name)
    return removed


def _unnamed(store: Store, found: Sequence[Entry]) -> list[str]:
    named = files_of(found)
    return [one for one in store.names("") if one.startswith(TABLE) and one not in named]


def _by_lock(names: Iterable[str]) -> dict[str, list[str]]:
    """Files of tables by the lock that whoever writes them holds."""
    found = defaultdict(list)
    for name in names:
        run = run_of(name)
        found[SHARED_LOCK if run is None else lock_key_of_run(run)].append(name)
    return found


def _of_lock(store: Store, lock: str) -> Iterable[Entry]:
    """The runs that may name files which are written under a lock."""
    if lock == SHARED_LOCK:
        return entries(store)
    names = [name for name in row_names(store) if name.startswith(f"{MANIFEST}/{lock}")]
    return [entry for entry in (read_row(store, name) for name in names) if entry]
