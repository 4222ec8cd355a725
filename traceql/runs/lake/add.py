"""Adds one run to a lake. The manifest row is written last, so the lake is always valid."""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

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
    """A run to add: its absolute path, its name without the digest, and its files."""

    path: Path
    name: str
    is_database: bool
    inputs: tuple[Input, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.inputs, otherwise=str(self.path))


def source_at(path: Path) -> Source:
    """The run at a path; a damaged one is identified by its files."""
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
    name = path.absolute().name
    while not path.is_dir() and (
        ending := next((one for one in _ENDINGS if name.endswith(one) and name != one), "")
    ):
        name = name.removesuffix(ending)
    return Source(path.absolute(), name, is_loaded, inputs)


def digest_of(inputs: Iterable[Input], *, otherwise: str) -> str:
    """The digest of the SHA-256 of files, in any order; of a text if there are none."""
    known = sorted({one.sha256 for one in inputs})
    return hashlib.sha256("\n".join(known or [f"path {otherwise}"]).encode()).hexdigest()


def database_inputs(path: Path) -> tuple[Input, ...]:
    """The files that a database was loaded from.

    Raises DatabaseError if it is of another version, or an excerpt, whose numbers cannot be
    compared with those of whole runs.
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


class Added(NamedTuple):
    """The manifest row of a source, whether the lake was changed, and the row that it replaces."""

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
    options = {"jobs": jobs, "memory": memory, "trace_processor": trace_processor}

    def loading(path: Path, database: Path) -> None:
        from traceql.database.loading.load import load  # not needed for databases

        load(path, database, complete=True, prefetched=ahead, **options)  # type: ignore[arg-type]

    added = _added(store, source_at(Path(source)), loading, again=again)
    if added.before:
        remove_unnamed(store, files_of([added.before]))
    if added.is_new and added.entry.is_ok:  # earlier failures of this path are obsolete
        for one in entries(store):
            if not one.is_ok and one.source == added.entry.source:
                store.remove(row_name(one.digest))
    return added


def _added(
    store: Store, found: Source, loading: Callable[[Path, Path], None], *, again: bool
) -> Added:
    given = found.digest
    with store.locked(lock_key(given)):
        if not again:
            known = read_entry(store, given)
            if known is None or not known.is_ok:
                loaded = (one for one in entries(store) if one.is_ok and one.given == given)
                known = next(loaded, None)
            if known:
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
    text = one_line(str(error) if isinstance(error, TraceqlError) else reason(error))
    digest = source.digest
    return _entry(
        source,
        run_name(source.name, digest),
        digest,
        status=FAILED,
        error=text,
        inputs=source.inputs,
    )


def _entry(source: Source, run: str, digest: str, **more: Any) -> Entry:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
    return Entry(run, digest, source.digest, source=str(source.path), added=now, **more)


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
        entry = _entry(
            source,
            run,
            digest,
            status=OK,
            error=None,
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
