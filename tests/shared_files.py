"""Files that take long to make, made once in a test run by the first process that needs them."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_FOLDER = "TRACEQL_TESTS_FOLDER"


def begin() -> None:
    """Gives this process and those that it starts a folder of their own."""
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="traceql-tests-")


def end() -> None:
    shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


def shared_file(name: str, make: Callable[[Path], object]) -> Path:
    """The file of this name, which `make` writes whole or not at all; nobody may change it."""
    path = Path(os.environ[_FOLDER]) / name
    with path.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make(path)
    return path
