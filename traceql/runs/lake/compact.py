"""Merges small files of many runs into larger ones, a table at a time.

A new file is complete before any run names it, and an old one is removed after no run names it any
more, so that the lake is whole whenever this is killed.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from traceql.errors import LakeError
from traceql.runs.lake.layout import lock_key, shared_name
from traceql.runs.lake.local_store import file_sha256
from traceql.runs.lake.manifest import Entry, StoredFile, entries, files_of, read_entry, write_entry
from traceql.runs.lake.places import store_at
from traceql.runs.lake.store import Store
from traceql.runs.lake.strays import SHARED_LOCK, remove_strays, remove_unnamed
from traceql.runs.lake.tables import RUN, StoredTable, layout, stored_tables
from traceql.runs.lake.views import of_runs
from traceql.util.memory import memory_bytes, writing_limits
from traceql.util.sql_text import literal

SMALL_BYTES = 32 * 2**20  # a larger file stays as it is
_MERGED = "merged.parquet"
_NAMED_EVERY_S = 60.0  # what was done until then is kept, if the rest is killed
_MOST_BYTES = 256 * 2**20  # of the files that become one


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: the number of files before and after, and strays that it removed."""

    before: int
    after: int
    strays: int


def compact(lake: str, *, small_bytes: int = SMALL_BYTES) -> Compacted:
    """Merges the files of each table that are smaller than this, and removes what no run names.

    It uses half of the memory of the machine, or of the container, and then the disk.

    Raises:
        LakeError: the folder is not a lake, or a file of it is damaged.
        OSError: the lake cannot be written.
    """
    store = store_at(lake)
    swept = len(remove_strays(store))
    before = len(files_of(entries(store)))
    with (
        store.locked(SHARED_LOCK),
        store.drafts() as drafts,
        duckdb.connect(config=writing_limits(drafts / _MERGED, memory_bytes(None))) as con,
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
    small = [
        one
        for one in found
        if one.is_ok
        and one.layout == layout()
        and table in one.tables
        and one.tables[table].size_bytes < small_bytes
    ]
    group: list[Entry] = []
    files: dict[str, int] = {}
    for one in sorted(small, key=lambda entry: entry.run):
        stored = one.tables[table]
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
    ((name, rows),) = [(name, sum(one.tables[table].rows for one in group)) for name in files]
    counted = "SELECT SUM(num_rows) FROM parquet_file_metadata($url)"
    try:
        return con.execute(counted, {"url": store.url(name)}).fetchall() != [(rows,)]
    except duckdb.Error as error:
        raise LakeError(f"{str(error).splitlines()[0]}; {_see_check(store)}") from None


def _merged(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    table: StoredTable,
    group: Sequence[Entry],
    drafts: Path,
) -> dict[str, StoredFile]:
    """Puts one file with the rows of all these runs; by run, what its manifest row will say."""
    draft = drafts / _MERGED
    expected = {one.run: one.tables[table.name].rows for one in group}
    try:
        counts = _write(con, of_runs(con, store, table, group), draft)
    except duckdb.Error as error:
        raise LakeError(f"{str(error).splitlines()[0]}; {_see_check(store)}") from None
    if counts != expected:
        raise LakeError(
            f"files of table {table.name} have other rows than the manifest says; "
            f"{_see_check(store)}"
        )
    sha256, size = file_sha256(draft), draft.stat().st_size
    name = shared_name(table.name, sha256)
    store.put(draft, name)
    return {run: StoredFile(name, rows, size, sha256) for run, rows in counts.items()}


def _write(con: duckdb.DuckDBPyConnection, rows: str, draft: Path) -> dict[str, int]:
    """Writes the rows of runs, each in its order; counts them in the new file."""
    con.execute(f"COPY ({rows}) TO {literal(draft)} (FORMAT parquet, COMPRESSION zstd)")
    counted = f"SELECT {RUN}, COUNT(*) FROM read_parquet({literal(draft)}) GROUP BY {RUN}"
    return dict(con.execute(counted).fetchall())


def _see_check(store: Store) -> str:
    return f"see traceql lake check --lake {store.place}"


def _rename_all(
    store: Store, found: dict[str, Entry], moved: Mapping[str, Mapping[str, StoredFile]]
) -> None:
    """Lets manifest rows name the new files; takes runs that changed meanwhile out of `found`."""
    for run, files in moved.items():
        entry = found.pop(run)
        renamed = replace(entry, tables={**entry.tables, **files})
        with store.locked(lock_key(entry.digest)):
            if read_entry(store, entry.digest) == entry:
                write_entry(store, renamed)
                found[run] = renamed
