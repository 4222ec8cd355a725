"""Adds one run to a lake. The manifest row is written last, so the lake is always valid."""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext, suppress
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
from traceql.runs.lake.tables import layout, stored_tables, write_run
from traceql.util.files import is_database, is_sqlite
from traceql.util.resources import SCHEMA_VERSION
from traceql.util.text import one_line

_TRACES = """
    SELECT path, sha256, size_bytes FROM trace
    UNION ALL
    SELECT path, sha256, NULL FROM profile_file
    ORDER BY sha256, path
"""
# Suffixes of formats, which are not part of the name of a run.
_ENDINGS = (
    ".gz", ".zip", ".json", ".trace", ".pt", ".duckdb", ".db", ".sqlite", ".pftrace",
    ".perfetto-trace", ".csv", ".ncu-rep",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A run to add.

    Attributes:
        path: absolute.
        name: of the run, without its digest.
        is_database: whether it is loaded already.
        inputs: the files that it is loaded from.
    """

    path: Path
    name: str
    is_database: bool
    inputs: tuple[Input, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.inputs, otherwise=str(self.path))


def source_at(path: Path) -> Source:
    """The run at a path. A damaged one is identified by its files.

    Raises:
        OSError: a file cannot be read.
    """
    is_loaded = path.is_file() and is_database(path) and not is_sqlite(path)
    inputs: tuple[Input, ...] = ()
    with suppress(TraceqlError):
        if is_loaded:
            inputs = database_inputs(path)
        else:
            files = [*trace_files([path]), *profile_files([path])]
            inputs = tuple(_input(file) for file in files if file.is_file())
    if not inputs and path.is_file():
        inputs = (_input(path),)
    return Source(path.absolute(), _name(path), is_loaded, inputs)


def digest_of(inputs: Iterable[Input], *, otherwise: str) -> str:
    """The digest of the SHA-256 of files, in any order; of a text if there are none."""
    known = sorted({one.sha256 for one in inputs})
    return hashlib.sha256("\n".join(known or [f"path {otherwise}"]).encode()).hexdigest()


def database_inputs(path: Path) -> tuple[Input, ...]:
    """The files that a database was loaded from.

    Raises:
        DatabaseError: it is not a database of this version of traceql, or an excerpt, whose numbers
            cannot be compared with those of whole runs.
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
    """The result of adding one source.

    Attributes:
        entry: its manifest row.
        is_new: whether the lake was changed.
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
    """Adds one run to a lake, unless the lake has it. It can run in another process.

    A run that cannot be loaded gets a manifest row with the error instead of an exception.

    Args:
        source: a database, or what `traceql.load` takes.
        lake: a folder; it is created if it does not exist.
        jobs: the number of files to read at once; by default one per processor.
        memory: approximate limit of memory, bytes; by default half of that of the machine.
        trace_processor: a native trace_processor_shell to load with.
        ahead: a folder of files that have been read already, see `loading/reading.py`.
        again: whether a run that the lake has is replaced.

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
    if added.is_new and added.entry.is_ok:  # earlier failures of this path are obsolete
        for one in entries(store):
            if not one.is_ok and one.source == added.entry.source:
                store.remove(row_name(one.digest))
    return added


def _load(path: Path, database: Path, **options: Any) -> None:
    from traceql.database.loading.load import load  # not needed for databases

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
                database = found.path
                if not found.is_database:
                    database = drafts / "loading" / f"{found.name}.duckdb"
                    database.parent.mkdir()
                    loading(found.path, database)
                return _written(store, found, database, again=again)
        except Exception as error:  # one run must not stop the others
            return noted(store, failed(found, error))


def noted(store: Store, entry: Entry) -> Added:
    """Writes a failure, unless an earlier add succeeded. The caller holds the lock."""
    known = read_entry(store, entry.digest)
    if known is None or not known.is_ok:
        write_entry(store, entry)
    return Added(entry, is_new=True)


def failed(source: Source, error: Exception) -> Entry:
    """The manifest row of a run that could not be loaded."""
    digest = source.digest
    return Entry(
        run=run_name(source.name, digest),
        digest=digest,
        given=digest,
        status=FAILED,
        error=one_line(str(error) if isinstance(error, TraceqlError) else reason(error)),
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


def _written(store: Store, source: Source, database: Path, *, again: bool) -> Added:
    """Writes a loaded run. The caller holds the lock of the source."""
    inputs = database_inputs(database) or source.inputs
    digest = digest_of(inputs, otherwise=str(source.path))
    is_locked = lock_key(digest) == lock_key(source.digest)
    with nullcontext() if is_locked else store.locked(lock_key(digest)):
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
        named = {one.file for one in tables.values()}
        for table in stored_tables():  # remove files of an earlier add
            for name in store.names(run_folder(table, run)):
                if name not in named and store.is_settled(name):
                    store.remove(name)
        return Added(entry, is_new=True, before=known)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
