"""Removes a run from a lake."""

from collections.abc import Sequence

from traceql.runs.lake.layout import lock_key, row_name
from traceql.runs.lake.manifest import Entry, entries, files_of
from traceql.runs.lake.naming import named_run
from traceql.runs.lake.places import store_at
from traceql.runs.lake.store import Store
from traceql.runs.lake.strays import remove_unnamed


def remove_runs(lake: str, runs: Sequence[str]) -> list[Entry]:
    """Removes runs by name; their rows in files of several runs are left out until a compaction.

    Raises:
        RunNotFound: one of them is not in the lake; then none is removed.
    """
    store = store_at(lake)
    found = entries(store)
    chosen = [named_run(found, run) for run in dict.fromkeys(runs)]
    for entry in chosen:
        _remove(store, entry)
    return chosen


def _remove(store: Store, entry: Entry) -> None:
    """The manifest row first: without it, the run is gone, whatever is left."""
    with store.locked(lock_key(entry.digest)):
        store.remove(row_name(entry.digest))
    remove_unnamed(store, files_of([entry]))
