"""Finds the store of a lake that a user names."""

from pathlib import Path

from traceql.runs.lake.local_store import LocalStore
from traceql.runs.lake.store import Store


def store_at(lake: str | Path) -> Store:
    """The files of a lake in this folder or at this URL, which need not exist yet.

    Raises:
        LakeError: it is a URL, and a package that it needs is not installed.
    """
    if is_url(lake):
        from traceql.runs.lake.object_store import ObjectStore

        return ObjectStore(str(lake))
    return LocalStore(Path(lake))


def is_url(lake: str | Path) -> bool:
    """Whether a lake is not a folder."""
    return "://" in str(lake)


def anywhere(lake: str) -> str:
    """The lake, as a process in another folder names it."""
    return lake if is_url(lake) else str(Path(lake).absolute())
