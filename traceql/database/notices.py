"""Reports to listeners: an excerpt was opened, or tables are being made on first use."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

Done = Callable[[int, int], None]
Progress = Callable[[Path], AbstractContextManager[Done]]
_Listener = TypeVar("_Listener")

# Of all threads: some open databases side by side.
_excerpts: list[Callable[[str], None]] = []
_first_uses: list[Progress] = []


def excerpts_reported(report: Callable[[str], None]) -> AbstractContextManager[None]:
    """Within the block, each excerpt that is opened is reported once, in a line."""
    reported = set[str]()

    def report_once(line: str) -> None:
        if line not in reported:
            reported.add(line)
            report(line)

    return _added(_excerpts, report_once)


def report_excerpt(line: str) -> None:
    for report in _excerpts:
        report(line)


def first_uses_reported(progress: Progress) -> AbstractContextManager[None]:
    """Within the block, progress in making tables of open databases is reported.

    Args:
        progress: is entered with the database before its tables are made, and left afterwards; the
            function that it yields gets how many tables were made, and of how many.
    """
    return _added(_first_uses, progress)


@contextmanager
def first_use_progress(database: Path) -> Iterator[Done]:
    """Yields a function that reports how many tables were made, and of how many."""
    with ExitStack() as stack:
        reports = [stack.enter_context(one(database)) for one in _first_uses]

        def done(count: int, total: int) -> None:
            for report in reports:
                report(count, total)

        yield done


@contextmanager
def _added(listeners: list[_Listener], one: _Listener) -> Iterator[None]:
    listeners.append(one)
    try:
        yield
    finally:
        listeners.remove(one)
