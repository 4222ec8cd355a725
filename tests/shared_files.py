"""Files that take long to make. The first process of a test run that needs one makes it."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

_FOLDER = "TRACEQL_TESTS_FOLDER"


def begin() -> None:
    """Creates a folder for this process and the processes that it starts."""
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="traceql-tests-")


def end() -> None:
    shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


def shared_file(name: str, make: Callable[[Path], object]) -> Path:
    """The file of this name, which `make` writes completely or not at all; tests only read it."""
    path = Path(os.environ[_FOLDER]) / name
    with FileLock(path.with_name(f"{name}.lock")):
        if not path.exists():
            make(path)
    return path
