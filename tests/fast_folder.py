"""Tests write their files to memory where there is enough, because each load waits for the disk."""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # Linux's file system in memory
_LEAST_FREE = 8 << 30  # bytes; the tests need a quarter of it
_DISK = tempfile.gettempdir()


def begin() -> None:
    """Lets this process and those that it starts write their temporary files to memory."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _LEAST_FREE:
        _use(tempfile.mkdtemp(prefix="t-", dir=_MEMORY))


def end() -> None:
    """Removes these files."""
    used = tempfile.gettempdir()
    if Path(used).parent == _MEMORY:
        shutil.rmtree(used, ignore_errors=True)
        _use(_DISK)


def _use(folder: str) -> None:
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None  # it is looked up again
