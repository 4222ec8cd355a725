"""A lake in a folder of this machine, or of a file system that several machines share."""

import hashlib
import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import duckdb

from traceql.runs.lake.layout import LOCKS
from traceql.util.drafts import draft_folder
from traceql.util.locks import locked
from traceql.util.sql_text import literal


class LocalStore:
    """See `Store`."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._root = Path(os.path.realpath(folder))

    def names(self, folder: str) -> list[str]:
        top = self._root / folder
        found = [
            Path(at, file).relative_to(self._root).as_posix()
            for at, _, files in os.walk(top)
            for file in files
        ]
        return sorted(found)

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def size(self, name: str) -> int | None:
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        return file_sha256(self._root / name)

    def put(self, draft: Path, name: str) -> None:
        """Moves a complete file into the lake.

        It and its name are on the disk before this returns, so that what names it may be written.
        """
        target = self._root / name
        _sync(draft)
        while True:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.replace(target)
                break
            except FileNotFoundError:  # another process removed the empty folder meanwhile
                draft.stat()
        if os.name == "posix":  # Windows cannot open folders
            _sync(target.parent)

    def remove(self, name: str) -> None:
        path = self._root / name
        path.unlink(missing_ok=True)
        if path.parent != self._root:
            with suppress(OSError):  # it is not empty
                path.parent.rmdir()

    def is_settled(self, _name: str) -> bool:
        return True  # who writes it would hold the lock

    def url(self, name: str) -> str:
        return str(self._root / name)

    def drafts(self) -> AbstractContextManager[Path]:
        self._root.mkdir(parents=True, exist_ok=True)
        return draft_folder(self._root)

    def locked(self, key: str) -> AbstractContextManager[None]:
        (self._root / LOCKS).mkdir(parents=True, exist_ok=True)
        return locked(self._root / LOCKS / key)

    def is_locked(self, key: str) -> bool:
        from filelock import FileLock, Timeout

        path = self._root / LOCKS / key
        if not path.exists():
            return False
        try:
            with FileLock(path, preserve_lock_file=True, blocking=False):
                return False
        except Timeout:
            return True

    def connect(self, _con: duckdb.DuckDBPyConnection) -> None:
        """A connection can read local files."""

    def confine(self, con: duckdb.DuckDBPyConnection) -> None:
        con.execute(f"SET allowed_directories = [{literal(f'{self._root}/')}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET allowed_configs = ['search_path']")
        con.execute("SET lock_configuration = true")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a local file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
