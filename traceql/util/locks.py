"""Locks between processes."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CAN_REMOVE_OPEN_FILES = os.name == "posix"
# Do not follow a link, and do not wait for the reader of a pipe; Windows has neither.
_THIS_FILE_ONLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on the file `path`; the last holder removes the file.

    Waits for other processes and threads. A killed process frees its lock; its file stays until the
    next process has held the lock.

    Raises:
        OSError: the folder of the file does not exist, the file cannot be created or is not a lock,
            or its file system has no locks.
    """
    from filelock import FileLock  # takes 50 ms to import, and most commands need no lock

    # Filelock would create a missing folder, or retry forever if the file cannot be a lock.
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | _THIS_FILE_ONLY, 0o666)
    try:
        if os.fstat(descriptor).st_size:
            raise OSError(errno.EEXIST, f"{path.name} is in the way and not a lock; rename it")
    finally:
        os.close(descriptor)
    try:
        with FileLock(path, preserve_lock_file=_CAN_REMOVE_OPEN_FILES):
            yield
    finally:
        _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    """Removes a lock file, unless another process holds the lock.

    On POSIX systems the lock is held meanwhile. A process that waits on the removed file detects
    this when it gets the lock, and retries with a new file. Windows cannot remove an open file;
    there filelock removes it when it releases the lock.
    """
    from filelock import FileLock

    with (
        suppress(OSError),  # among them filelock's Timeout
        FileLock(path, preserve_lock_file=_CAN_REMOVE_OPEN_FILES, blocking=False),
    ):
        path.unlink()
