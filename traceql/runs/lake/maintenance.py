"""Maintenance of a lake: checks, removal of runs, merging of small files, orphaned files."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import duckdb

from traceql.errors import LakeError
from traceql.runs.lake.manifest import (
    Entry,
    StoredFile,
    entries,
    files_of,
    named_run,
    read_entry,
    read_row,
    require_lake,
    row_names,
    write_entry,
)
from traceql.runs.lake.store import (
    MANIFEST,
    TABLE,
    Store,
    file_sha256,
    lock_key,
    lock_key_of_run,
    row_name,
    run_of,
    shared_name,
    store_at,
)
from traceql.runs.lake.tables import RUN, StoredTable, layout, of_runs, stored_tables
from traceql.util.process import memory_bytes, writer_settings
from traceql.util.text import literal

SHARED_LOCK = "shared"  # to write or remove files of several runs


def remove_unnamed(store: Store, names: Iterable[str]) -> list[str]:
    """Removes those of these files that no run names; returns them. The caller holds no lock."""
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
    """Files of tables by the lock of their writer."""
    found = defaultdict(list)
    for name in names:
        run = run_of(name)
        found[SHARED_LOCK if run is None else lock_key_of_run(run)].append(name)
    return found


def _of_lock(store: Store, lock: str) -> Iterable[Entry]:
    """The runs that may name files written under a lock."""
    if lock == SHARED_LOCK:
        return entries(store)
    names = [name for name in row_names(store) if name.startswith(f"{MANIFEST}/{lock}")]
    return [entry for entry in (read_row(store, name) for name in names) if entry]


def remove_runs(lake: str, runs: Sequence[str]) -> list[Entry]:
    """Removes runs by name; a compaction removes their rows from files of several runs.

    Raises RunNotFound if one of them is not in the lake; then none is removed.
    """
    store = store_at(lake)
    found = entries(store)
    chosen = [named_run(found, run) for run in dict.fromkeys(runs)]
    for entry in chosen:  # the manifest row first: without it, the run does not exist
        with store.locked(lock_key(entry.digest)):
            store.remove(row_name(entry.digest))
        remove_unnamed(store, files_of([entry]))
    return chosen


class Problem(NamedTuple):
    """A problem with a file or run, and its remedy; a failed run is not a fault of the lake.

    The kind is missing, damaged, orphan, row or failed.
    """

    kind: str
    name: str
    advice: str

    @property
    def is_fault(self) -> bool:
        return self.kind != "failed"


class Checked(NamedTuple):
    runs: int
    files: int
    size_bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not any(one.is_fault for one in self.problems)


def check_lake(lake: str, *, content: bool = True) -> Checked:
    """Checks the SHA-256 of all files of a lake, or without `content` only their sizes."""
    store = store_at(lake)
    require_lake(store)
    found: list[Entry] = []
    problems: list[Problem] = []
    for name in row_names(store):
        try:
            found += filter(None, [read_row(store, name)])
        except LakeError:
            advice = f"remove {store.place}/{name} and add the run again"
            problems.append(Problem("row", name, advice))
    has_damaged_rows = bool(problems)  # whose files seem to be orphans
    files, runs = files_of(found), defaultdict(list)
    for entry in found:
        for one in entry.tables.values():
            runs[one.file].append(entry)
    for name, one in sorted(files.items()):
        size = store.size(name)
        if size is None:
            problems.append(Problem("missing", name, _again(store, runs[name])))
        elif size != one.size_bytes or (content and store.sha256(name) != one.sha256):
            problems.append(Problem("damaged", name, _again(store, runs[name])))
    if not has_damaged_rows:
        remedy = f"traceql lake compact --lake {quote(store.place)} removes it"
        problems += [
            Problem("orphan", name, remedy)
            for lock, names in _by_lock(_unnamed(store, found)).items()
            if not store.is_locked(lock)  # no process is writing it
            for name in names
            if store.is_settled(name)
        ]
    problems += [
        Problem("failed", one.run, f"{one.error}; add it again, or traceql lake remove {one.run}")
        for one in found
        if not one.is_ok
    ]
    total = sum(one.size_bytes for one in files.values())
    return Checked(len(found), len(files), total, tuple(problems))


def _again(store: Store, found: list[Entry]) -> str:
    sources = " ".join(quote(entry.source) for entry in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"traceql lake add {sources}{more} --again --lake {quote(store.place)}"


SMALL_BYTES = 32 * 2**20  # a larger file stays as it is
_MERGED = "merged.parquet"
_NAMED_EVERY_S = 60.0  # interval at which merged files are committed
_MOST_BYTES = 256 * 2**20  # of the files that become one


class Compacted(NamedTuple):
    """The number of files before and after a compaction, and of removed orphans."""

    before: int
    after: int
    orphans: int


def compact(lake: str, *, small_bytes: int = SMALL_BYTES) -> Compacted:
    """Merges the files of each table that are smaller than this, and removes orphaned files.

    It uses half of the memory of the machine, or of the container, and then the disk.

    Raises:
        LakeError: the folder is not a lake, or a file of it is damaged.
        OSError: the lake cannot be written.
    """
    store = store_at(lake)
    swept = len(remove_unnamed(store, _unnamed(store, entries(store))))  # waits for writers
    before = len(files_of(entries(store)))
    with (
        store.locked(SHARED_LOCK),
        store.drafts() as drafts,
        duckdb.connect(config=writer_settings(drafts / _MERGED, memory_bytes(None))) as con,
    ):
        store.connect(con)
        found = {one.run: one for one in entries(store)}
        old = files_of(found.values())
        moved: dict[str, dict[str, StoredFile]] = {}
        named_at = time.monotonic()
        for table in stored_tables().values():
            for group in _groups(table.name, [*found.values()], small_bytes):
                if not _is_worthwhile(con, store, table.name, group):
                    continue
                for run, file in _merged(con, store, table, group, drafts).items():
                    moved.setdefault(run, {})[table.name] = file
            if time.monotonic() - named_at >= _NAMED_EVERY_S:
                _rename_all(store, found, moved)
                moved, named_at = {}, time.monotonic()
        _rename_all(store, found, moved)
    remove_unnamed(store, old)
    return Compacted(before, len(files_of(entries(store))), swept)


def _groups(table: str, found: Sequence[Entry], small_bytes: int) -> Iterator[list[Entry]]:
    """Runs whose files of a table become one, in the order of their names."""
    group: list[Entry] = []
    files: dict[str, int] = {}
    for one in sorted(found, key=lambda entry: entry.run):
        stored = one.tables.get(table)
        if not stored or not one.is_ok or one.layout != layout():
            continue
        if stored.size_bytes >= small_bytes:
            continue
        if sum(files.values()) >= _MOST_BYTES and stored.file not in files:
            yield group
            group, files = [], {}
        group.append(one)
        files[stored.file] = stored.size_bytes
    yield group


def _is_worthwhile(
    con: duckdb.DuckDBPyConnection, store: Store, table: str, group: Sequence[Entry]
) -> bool:
    """Whether there are several files, or one with rows of runs that are gone."""
    files = {one.tables[table].file for one in group}
    if len(files) != 1:
        return bool(files)
    (name,), rows = files, sum(one.tables[table].rows for one in group)
    counted = "SELECT SUM(num_rows) FROM parquet_file_metadata($url)"
    with _damage_explained(store):
        return con.execute(counted, {"url": store.url(name)}).fetchall() != [(rows,)]


def _merged(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    table: StoredTable,
    group: Sequence[Entry],
    drafts: Path,
) -> dict[str, StoredFile]:
    """Puts one file with the rows of all these runs; returns the entry for each manifest row."""
    draft = drafts / _MERGED
    expected = {one.run: one.tables[table.name].rows for one in group}
    with _damage_explained(store):
        rows = of_runs(con, store, table, group)  # each run in its order
        con.execute(f"COPY ({rows}) TO {literal(draft)} (FORMAT parquet, COMPRESSION zstd)")
        counted = f"SELECT {RUN}, COUNT(*) FROM read_parquet({literal(draft)}) GROUP BY {RUN}"
        counts = dict(con.execute(counted).fetchall())
        if counts != expected:
            raise duckdb.Error(f"files of table {table.name} have other rows than the manifest")
    sha256, size = file_sha256(draft), draft.stat().st_size
    name = shared_name(table.name, sha256)
    store.put(draft, name)
    return {run: StoredFile(name, rows, size, sha256) for run, rows in counts.items()}


@contextmanager
def _damage_explained(store: Store) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        check = f"traceql lake check --lake {store.place}"
        raise LakeError(f"{str(error).splitlines()[0]}; see {check}") from None


def _rename_all(
    store: Store, found: dict[str, Entry], moved: Mapping[str, Mapping[str, StoredFile]]
) -> None:
    """Puts the new files into manifest rows; removes runs that changed meanwhile from `found`."""
    for run, files in moved.items():
        entry = found.pop(run)
        renamed = replace(entry, tables={**entry.tables, **files})
        with store.locked(lock_key(entry.digest)):
            if read_entry(store, entry.digest) == entry:
                write_entry(store, renamed)
                found[run] = renamed
