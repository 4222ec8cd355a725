"""The version, the files that belong to traceql, and folders of the user."""

import os
import stat
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

__version__ = "0.1.0"


PACKAGE = Path(__file__).resolve().parents[1]


def resource(name: str) -> Path:
    """The folder `queries`, `checks`, `docs` or `examples` of this installation."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / name


SCHEMA_VERSION = 17  # of the tables that traceql/sql defines
QUERIES = resource("queries")
CHECKS = resource("checks")
EXAMPLES = resource("examples")
DEFINITIONS = resource("docs") / "definitions.md"
MODELS = PACKAGE.parent / "capture" / "models"  # data alone: the packages do not import each other
EXAMPLE_TRACE = EXAMPLES / "qwen3-32b-tp4-graph-nccl"


def cache_folder() -> Path | None:
    """The folder for files that can be made again, such as ~/.cache/traceql on Linux.

    XDG_CACHE_HOME moves it. If the user has no home directory, or files cannot be created there, it
    is among the temporary files. None if that is impossible too.
    """
    usual = _usual_folder()
    if usual and _is_usable(usual):
        return usual
    return _temporary_folder()


def require_home() -> None:
    """Sets HOME if the user has no home directory, for libraries that cannot do without one."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(cache_folder() or tempfile.gettempdir())


def _usual_folder() -> Path | None:
    try:
        folder = user_cache_path("traceql", appauthor=False)
    except RuntimeError:
        return None
    return folder if folder.is_absolute() else None


def _temporary_folder() -> Path | None:
    """A folder of this user alone, because code that is kept there is run."""
    try:
        place = tempfile.gettempdir()
    except OSError:
        return None
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(place) / f"traceql-{user}"
    return folder if _is_usable(folder) and _is_private(folder) else None


def _is_usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _is_private(folder: Path) -> bool:
    """Whether it is no link, belongs to this user, and nobody else can write there."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.getuid() and not others_write
