"""Who is told that tables of an open database are being made, which may take a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Tell = Callable[[Path, int, int], None]
_listeners: list[Tell] = []  # of all threads: some open databases side by side


@contextmanager
def first_uses_told(tell: Tell) -> Iterator[None]:
    """Within the block, progress in making tables of open databases is told.

    Args:
        tell: gets the database, how many tables were made, and of how many; first with 0.
    """
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def progress_of(database: Path) -> Callable[[int, int], None]:
    """A function that tells all who listen how many tables were made, and of how many."""

    def done(count: int, total: int) -> None:
        for tell in _listeners:
            tell(database, count, total)

    return done
