"""Folders of the user, wherever the operating system has them."""

from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path | None:
    """The folder for files that can be made again, such as ~/.cache/traceql on Linux.

    XDG_CACHE_HOME moves it. It may not exist yet. None if the user has no home directory.
    """
    try:
        folder = user_cache_path("traceql", appauthor=False)
    except RuntimeError:
        return None
    return folder if folder.is_absolute() else None
