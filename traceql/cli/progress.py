"""Progress on stderr: a bar in a terminal, and a line before a long silence anywhere."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from traceql.printable import one_line
from traceql.units import SIZE

_COMPILING = "compiling Perfetto's trace processor, once per machine (5 to 20 s) ..."
_TOLD: dict[str, Callable[[int, int], str]] = {
    "engine": lambda _count, _total: _COMPILING,
    "disk": lambda needed, free: (
        f"needs about {SIZE.text(needed)} of disk while it runs; {SIZE.text(free)} are free"
    ),
}
_SILENCE_S = 1.0
_LABELS = {"files": "reading traces", "database": "writing database"}


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields the function that `load` calls to report its progress."""
    if not sys.stderr.isatty():
        yield _say_if_silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(_LABELS["files"], total=None)

        def done(what: str, count: int, total: int) -> None:
            if what in _TOLD:
                bar.console.print(_TOLD[what](count, total), highlight=False)
                return
            bar.update(task, description=_LABELS[what], completed=count, total=total)

        yield done


def _say_if_silent(what: str, count: int, total: int) -> None:
    if what in _TOLD:
        click.echo(_TOLD[what](count, total), err=True)


class FirstUse:
    """Says on stderr that tables are being made for the first time, if that takes a second."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._count = self._total = 0

    def tell(self, database: Path, count: int, total: int) -> None:
        """Takes how many tables of a database were made, and of how many; first with 0."""
        self._count, self._total = count, total
        if count == 0:
            self._timer = threading.Timer(_SILENCE_S, self._say, [database])
            self._timer.daemon = True
            self._timer.start()
        elif count == total and self._timer:
            self._timer.cancel()

    def _say(self, database: Path) -> None:
        made = f"{self._count} of {self._total}"
        said = f"making tables of {database.name} on their first use ({made} made) ..."
        click.echo(one_line(said), err=True)
