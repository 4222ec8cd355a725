"""Who is told that tables of an open database are being made, which may take a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

Done = Callable[[int, int], None]
Tell = Callable[[Path], AbstractContextManager[Done]]
_listeners: list[Tell] = []  # of all threads: some open databases side by side


@contextmanager
def first_uses_told(tell: Tell) -> Iterator[None]:
    """Within the block, progress in making tables of open databases is told.

    Args:
        tell: gets the database before and after; what it yields gets how many tables were made, and
            of how many.
    """
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


@contextmanager
def progress_of(database: Path) -> Iterator[Done]:
    """Yields a function that tells all who listen how many tables were made, and of how many."""
    with ExitStack() as stack:
        told = [stack.enter_context(tell(database)) for tell in _listeners]

        def done(count: int, total: int) -> None:
            for one in told:
                one(count, total)

        yield done
