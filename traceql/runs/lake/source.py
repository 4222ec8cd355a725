"""What is added to a lake: a database, or traces to load; and how the same recording is known."""

import hashlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceql.database.excerpted import excerpt_in
from traceql.database.loading.discovery import profile_files, trace_files
from traceql.database.opening import opened_database
from traceql.errors import DatabaseError, TraceqlError
from traceql.runs.lake.local_store import file_sha256
from traceql.runs.lake.manifest import Input
from traceql.util.files import is_database, is_sqlite

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
