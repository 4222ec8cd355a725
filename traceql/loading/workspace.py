"""A folder beside a database in which the next version of it is made, or nothing is left."""

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
    """An empty folder beside `database`, removed at the end whatever happens.

    One load at a time has it; another waits, and then finds what the first has written. What a
    load that was killed left in it is removed.

    Raises:
        DatabaseError: the place cannot be written.
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
    """A descriptor that holds the lock of a folder that exists."""
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
