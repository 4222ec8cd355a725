"""A progress bar on stderr, shown only in a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LABELS = {"files": "reading traces", "database": "writing database"}


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields the function that `load` calls to report its progress."""
    if not sys.stderr.isatty():
        yield lambda _what, _count, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(_LABELS["files"], total=None)

        def done(what: str, count: int, total: int) -> None:
            bar.update(task, description=_LABELS[what], completed=count, total=total)

        yield done
