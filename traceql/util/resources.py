"""The version, the files of this installation, and the user's cache folder."""

import os
import stat
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

__version__ = "0.1.0"
PACKAGE = Path(__file__).resolve().parents[1]


def resource(name: str) -> Path:
    """The folder `queries`, `docs` or `examples` of this installation."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / name


SCHEMA_VERSION = 19  # of the tables that traceql/sql defines
QUERIES = resource("queries")
EXAMPLES = resource("examples")
DEFINITIONS = resource("docs") / "definitions.md"
MODELS = PACKAGE.parent / "capture" / "models"  # only data: the packages import no code
EXAMPLE_TRACE = EXAMPLES / "qwen3-32b-tp4-graph-nccl"


def cache_folder() -> Path | None:
    """The cache folder, such as ~/.cache/traceql on Linux; XDG_CACHE_HOME moves it.

    Without a home directory, or if it is not writable, a private folder in the temporary directory,
    because code that is cached there is run. None if that is impossible too.
    """
    try:
        folder = user_cache_path("traceql", appauthor=False)
        if folder.is_absolute() and _is_usable(folder):
            return folder
    except RuntimeError:  # no home directory
        pass
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError:
        return None
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = temporary / f"traceql-{user}"
    return folder if _is_usable(folder) and _is_private(folder) else None


def require_home() -> None:
    """Sets HOME if the user has no home directory, for libraries that need one."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(cache_folder() or tempfile.gettempdir())


def _is_usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _is_private(folder: Path) -> bool:
    """Whether it is a folder, not a link, that only this user owns and can write."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not hasattr(os, "getuid"):
        return stat.S_ISDIR(status.st_mode)
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.getuid() and not others_write
