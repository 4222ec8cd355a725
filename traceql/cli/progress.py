"""Progress on stderr: a bar in a terminal, and a line before a long silence anywhere."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from traceql.util.printable import one_line
from traceql.util.units import SIZE

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


@contextmanager
def first_use(database: Path) -> Iterator[Callable[[int, int], None]]:
    """Says on stderr that tables are made on their first use, if that takes more than a second."""
    made = ""

    def done(count: int, total: int) -> None:
        nonlocal made
        made = f", {count} of {total}"

    def say() -> None:
        said = f"making tables of {database.name} on their first use{made} ..."
        click.echo(one_line(said), err=True)

    timer = threading.Timer(_SILENCE_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield done
    finally:
        timer.cancel()
