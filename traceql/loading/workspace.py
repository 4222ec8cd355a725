"""The folder in which the next version of a database is made; nothing of it is left."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceql.errors import DatabaseError

_LOCK = "lock"


@contextmanager
def workspace(database: Path) -> Iterator[Path]:
    """An empty folder beside `database`, which is removed at the end in any case.

    Only one load at a time can use it. Another one waits, and then sees what the first one has
    written. If a load was killed, what it left in the folder is removed.

    Raises:
        DatabaseError: the folder cannot be created there.
    """
    if database.is_dir():
        raise DatabaseError(f"{database} is a folder; name a file with -o")
    folder = database.parent / f".{database.name}.loading"
    try:
        lock = _locked(folder)
    except OSError as error:
        raise DatabaseError(
            f"cannot write in {database.parent}: {error.strerror}; choose another place with -o"
        ) from None
    try:
        _remove_abandoned(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path) -> int:
    """Creates the folder and locks it; the lock is held while the descriptor is open."""
    path = folder / _LOCK
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock = os.open(path, os.O_CREAT | os.O_RDWR)
        except FileNotFoundError:  # the load before us is removing the folder
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
            return lock
        os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        elif left.name != _LOCK:
            left.unlink()
