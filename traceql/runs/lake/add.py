"""Adds one run to a lake. The manifest row comes last, so the lake is always valid."""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from traceql.database.loading.discovery import profile_files, trace_files
from traceql.database.opening import excerpt_in, opened_database
from traceql.errors import DatabaseError, TraceqlError, reason
from traceql.runs.lake.maintenance import remove_unnamed
from traceql.runs.lake.manifest import (
    FAILED,
    OK,
    Entry,
    Input,
    create_lake,
    entries,
    files_of,
    read_entry,
    write_entry,
)
from traceql.runs.lake.store import (
    Store,
    file_sha256,
    lock_key,
    row_name,
    run_folder,
    run_name,
    store_at,
)
from traceql.runs.lake.tables import layout, stored_tables
from traceql.runs.lake.write import write_run
from traceql.util.files import is_database, is_sqlite
from traceql.util.resources import SCHEMA_VERSION
from traceql.util.text import one_line

_TRACES = """
    SELECT path, sha256, size_bytes FROM trace
    UNION ALL
    SELECT path, sha256, NULL FROM profile_file
    ORDER BY sha256, path
"""
# Endings that say what a file is, not which run.
_ENDINGS = (
    ".gz", ".zip", ".json", ".trace", ".pt", ".duckdb", ".db", ".sqlite", ".pftrace",
    ".perfetto-trace", ".csv", ".ncu-rep",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A run that is to be added.

    Attributes:
        path: what the user named, absolute.
        name: of the run, without its digest.
        is_database: whether it is loaded already.
        inputs: the files that it is loaded from, or was.
    """

    path: Path
    name: str
    is_database: bool
    inputs: tuple[Input, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.inputs, otherwise=str(self.path))


def source_at(path: Path) -> Source:
    """The run at a path. It may be damaged: then what is there tells it from others.

    Raises:
        OSError: a file cannot be read.
    """
    loaded = path.is_file() and is_database(path) and not is_sqlite(path)
    found = _of_database(path) if loaded else _of_traces(path)
    return Source(path.absolute(), _name(path), loaded, found)


def digest_of(inputs: Iterable[Input], *, otherwise: str) -> str:
    """Of the SHA-256 of files, in any order; of a text if there are none."""
    known = sorted({one.sha256 for one in inputs})
    return hashlib.sha256("\n".join(known or [f"path {otherwise}"]).encode()).hexdigest()


def database_inputs(path: Path) -> tuple[Input, ...]:
    """The files that a database was loaded from.

    Raises:
        DatabaseError: it is not a database of this version of traceql, or an excerpt: its numbers
            are those of a part, and would stand beside those of whole runs.
    """
    otherwise = "add traces, or load them first: traceql load TRACE... -o RUN.duckdb"
    with closing(opened_database(path, otherwise=otherwise)) as con:
        if (part := excerpt_in(con)) is not None:
            raise DatabaseError(f"{path} is an excerpt; add the whole run, {part.source}")
        try:
            rows = con.execute(_TRACES).fetchall()
        except duckdb.Error as error:
            raise DatabaseError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    return tuple(Input(where, sha256, size or 0) for where, sha256, size in rows)


def _of_database(path: Path) -> tuple[Input, ...]:
    try:
        return database_inputs(path) or (_input(path),)
    except TraceqlError:
        return (_input(path),)


def _of_traces(path: Path) -> tuple[Input, ...]:
    try:
        files = [*trace_files([path]), *profile_files([path])]
    except TraceqlError:
        files = [path] if path.is_file() else []
    return tuple(_input(file) for file in files if file.is_file())


def _input(file: Path) -> Input:
    return Input(str(file.absolute()), file_sha256(file), file.stat().st_size)


def _name(path: Path) -> str:
    name = path.absolute().name
    if path.is_dir():
        return name
    while ending := next((one for one in _ENDINGS if name.endswith(one) and name != one), ""):
        name = name.removesuffix(ending)
    return name


@dataclass(frozen=True)
class Added:
    """What was done with one source.

    Attributes:
        entry: its manifest row.
        is_new: whether something was done.
        before: the row that this one replaces.
    """

    entry: Entry
    is_new: bool
    before: Entry | None = None


def add_run(
    source: str | Path,
    lake: str | Path,
    *,
    jobs: int | None = None,
    memory: int | None = None,
    trace_processor: str | Path | None = None,
    ahead: Path | None = None,
    again: bool = False,
) -> Added:
    """Adds one run to a lake, unless the lake has it. It can be called in another process.

    A run that cannot be loaded gets a row in the manifest that says why; nothing is raised for it.

    Args:
        source: a database, or what `traceql.load` takes.
        lake: a folder; it is created if it does not exist.
        jobs: the number of files to read at once; None for one per processor.
        memory: how many bytes of memory to use, about; None for half of what the machine has.
        trace_processor: a native trace_processor_shell to load with.
        ahead: a folder of files that have been read already, see `loading/reading.py`.
        again: whether a run that the lake has is added anew.

    Raises:
        LakeError: the folder is not a lake, or another version of traceql made it.
        OSError: the lake or the source cannot be read or written.
    """
    store = store_at(lake)
    create_lake(store)
    loading = partial(
        _load, jobs=jobs, memory=memory, trace_processor=trace_processor, prefetched=ahead
    )
    added = _added(store, source_at(Path(source)), loading, again=again)
    if added.before:
        remove_unnamed(store, files_of([added.before]))
    if added.is_new and added.entry.is_ok:
        _forget_failures(store, added.entry.source)
    return added


def _forget_failures(store: Store, source: str) -> None:
    """Removes the rows that say that what is at this path could not be loaded."""
    for one in entries(store):
        if not one.is_ok and one.source == source:
            store.remove(row_name(one.digest))


def _load(path: Path, database: Path, **options: Any) -> None:
    from traceql.database.loading.load import load  # not needed for what is loaded

    load(path, database, complete=True, **options)


def _added(
    store: Store, found: Source, loading: Callable[[Path, Path], None], *, again: bool
) -> Added:
    given = found.digest
    with store.locked(lock_key(given)):
        if not again and (known := _known(store, given)):
            return Added(known, is_new=False)
        try:
            with store.drafts() as drafts:
                database = _database(found, drafts, loading)
                return _written(store, found, database, again=again)
        except Exception as error:  # one run of a fleet, however odd, must not stop the others
            return noted(store, failed(found, error))


def noted(store: Store, entry: Entry) -> Added:
    """Notes a failure; where an add before it succeeded, that stays. The caller holds the lock."""
    known = read_entry(store, entry.digest)
    if known is None or not known.is_ok:
        write_entry(store, entry)
    return Added(entry, is_new=True)


def failed(source: Source, error: Exception) -> Entry:
    """The manifest row of a run that could not be loaded."""
    said = str(error) if isinstance(error, TraceqlError) else reason(error)
    digest = source.digest
    return Entry(
        run=run_name(source.name, digest),
        digest=digest,
        given=digest,
        status=FAILED,
        error=one_line(said),
        source=str(source.path),
        added=_now(),
        inputs=source.inputs,
    )


def _known(store: Store, given: str) -> Entry | None:
    """The run that was loaded from these files, if the lake has it."""
    entry = read_entry(store, given)
    if entry and entry.is_ok:
        return entry
    return next((one for one in entries(store) if one.is_ok and one.given == given), None)


def _database(source: Source, drafts: Path, loading: Callable[[Path, Path], None]) -> Path:
    if source.is_database:
        return source.path
    database = drafts / "loading" / f"{source.name}.duckdb"
    database.parent.mkdir()
    loading(source.path, database)
    return database


def _written(store: Store, source: Source, database: Path, *, again: bool) -> Added:
    """Writes a loaded run. The caller holds the lock of what was given."""
    inputs = database_inputs(database) or source.inputs
    digest = digest_of(inputs, otherwise=str(source.path))
    if lock_key(digest) == lock_key(source.digest):
        return _write(store, source, database, digest, inputs, again=again)
    with store.locked(lock_key(digest)):
        return _write(store, source, database, digest, inputs, again=again)


def _write(
    store: Store,
    source: Source,
    database: Path,
    digest: str,
    inputs: tuple[Input, ...],
    *,
    again: bool,
) -> Added:
    """Writes a loaded run. The caller holds the lock of the digest."""
    known = read_entry(store, digest)
    if known and known.is_ok and not again:
        return Added(known, is_new=False)
    run = known.run if known else run_name(source.name, digest)
    with store.drafts() as drafts:
        about, tables = write_run(store, database, run, drafts)
    entry = Entry(
        run=run,
        digest=digest,
        given=source.digest,
        status=OK,
        error=None,
        source=str(source.path),
        added=_now(),
        schema_version=SCHEMA_VERSION,
        layout=layout(),
        about=about,
        inputs=inputs,
        tables=tables,
    )
    write_entry(store, entry)
    _remove_others(store, entry)
    return Added(entry, is_new=True, before=known)


def _remove_others(store: Store, entry: Entry) -> None:
    """Removes the files of the run that an add before it left."""
    named = {one.file for one in entry.tables.values()}
    for table in stored_tables():
        for name in store.names(run_folder(table, entry.run)):
            if name not in named and store.is_settled(name):
                store.remove(name)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
