"""Locks between processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CAN_REMOVE_OPEN_FILES = os.name == "posix"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on the file `path`, which is removed when nobody holds or awaits the lock.

    Waits for other processes and threads. The lock of a killed process is free; its file stays
    until the next process has held the lock.

    Raises:
        OSError: the folder of the file does not exist, the file cannot be created, or its file
            system has no locks.
    """
    from filelock import FileLock  # takes 50 ms to import, and most commands need no lock

    # This fails if the file cannot be created. Filelock would create its folder, or try for ever.
    with path.open("a"):
        pass
    try:
        with FileLock(path, preserve_lock_file=_CAN_REMOVE_OPEN_FILES):
            yield
    finally:
        _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    """Removes a lock file, unless another process holds the lock.

    On POSIX systems the lock is held meanwhile. A process that waits on the removed file notices
    that when it gets the lock, and starts again with a new file. Windows cannot remove an open
    file; there filelock removes it when it releases the lock.
    """
    from filelock import FileLock

    with (
        suppress(OSError),  # among them filelock's Timeout
        FileLock(path, preserve_lock_file=_CAN_REMOVE_OPEN_FILES, blocking=False),
    ):
        path.unlink()
