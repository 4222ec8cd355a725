"""Tests write their files to memory where there is enough, because each load waits for the disk."""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # Linux's file system in memory
_LEAST_FREE = 8 << 30  # bytes; the tests need a quarter of it
_made: list[str] = []


def begin() -> None:
    """Lets this process and those that it starts write their temporary files to memory."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _LEAST_FREE:
        _made.append(tempfile.mkdtemp(prefix="t-", dir=_MEMORY))
        os.environ["TMPDIR"] = _made[0]
        tempfile.tempdir = None  # it is looked up again


def end() -> None:
    """Removes these files, and no folder that this process did not make."""
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
