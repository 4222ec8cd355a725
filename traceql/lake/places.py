"""Finds the store of a lake that a user names."""

from pathlib import Path

from traceql.lake.local_store import LocalStore
from traceql.lake.store import Store


def store_at(lake: str | Path) -> Store:
    """The files of a lake in this folder, which need not exist yet."""
    return LocalStore(Path(lake))
