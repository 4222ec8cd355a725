"""Standard output that may be full or closed, and progress on stderr."""

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import click

from traceql.util.text import one_line
from traceql.util.units import SIZE

_STDIN, _STDOUT, _STDERR = range(3)


class _OutputFailed(OSError):
    """A failed write to standard output, unlike one to a file."""


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _OutputFailed(error.errno, error.strerror) from None


@contextmanager
def checked_output(status: int = 1) -> Iterator[None]:
    """Flushes stdout after the block; exits with this status if stdout cannot be written.

    Prints the reason in one line on stderr, but not if the program that reads our output has ended.
    """
    is_ours = sys.stdout is sys.__stdout__
    # Closed streams are replaced: a file that is opened later would get their number. Then stdin is
    # empty, stderr is discarded, and writes to stdout fail.
    if sys.stdin is None:
        sys.stdin = os.fdopen(_open_devnull(_STDIN, os.O_RDONLY), closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(_open_devnull(_STDOUT, os.O_RDONLY), "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_open_devnull(_STDERR, os.O_WRONLY), "w", closefd=False)
    if is_ours:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(_STDOUT, "w", closefd=False)),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=bool(sys.stdout.line_buffering),
        )
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        sys.exit(status)
    except _OutputFailed as error:
        _discard_output()
        click.echo(f"traceql: cannot write the output: {error.strerror}", err=True)
        sys.exit(status)


def _open_devnull(number: int, mode: int) -> int:
    opened = os.open(os.devnull, mode)
    return opened if opened == number else os.dup2(opened, number)


def _discard_output() -> None:
    """Sends to the null device what the interpreter flushes when it exits."""
    if isinstance(getattr(sys.stdout.buffer, "raw", None), _Output):
        _open_devnull(_STDOUT, os.O_WRONLY)


_COMPILING = "compiling Perfetto's trace processor, once per machine (5 to 20 s) ..."
_NOTICES: dict[str, Callable[[int, int], str]] = {
    "engine": lambda _count, _total: _COMPILING,
    "disk": lambda needed, free: (
        f"needs about {SIZE.text(needed)} of temporary disk space; {SIZE.text(free)} are free"
    ),
}
_FIRST_NOTICE_S = 1.0
_LABELS = {"files": "reading traces", "database": "writing database"}


@contextmanager
def load_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields the callback that `load` reports its progress to."""
    if not sys.stderr.isatty():

        def print_notice(what: str, count: int, total: int) -> None:
            if what in _NOTICES:
                click.echo(_NOTICES[what](count, total), err=True)

        yield print_notice
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(_LABELS["files"], total=None)

        def update(what: str, count: int, total: int) -> None:
            if what in _NOTICES:
                bar.console.print(_NOTICES[what](count, total), highlight=False)
                return
            bar.update(task, description=_LABELS[what], completed=count, total=total)

        yield update


@contextmanager
def first_use(database: Path) -> Iterator[Callable[[int, int], None]]:
    """Prints a line if making tables on their first use takes more than a second."""
    made = ""

    def update(count: int, total: int) -> None:
        nonlocal made
        made = f", {count} of {total}"

    def print_line() -> None:
        line = f"making tables of {database.name} on their first use{made} ..."
        click.echo(one_line(line), err=True)

    timer = threading.Timer(_FIRST_NOTICE_S, print_line)
    timer.daemon = True
    timer.start()
    try:
        yield update
    finally:
        timer.cancel()


class Throughput:
    """The rate at which the runs of a lake are added, and the time left."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._done = self._total = 0

    def update(self, done_bytes: int, total_bytes: int) -> None:
        """Takes the bytes of traces that are done; the clock starts when none are."""
        if not done_bytes:
            self._began = monotonic()
        self._done, self._total = done_bytes, total_bytes

    def text(self) -> str:
        """Share, rate and time left in brackets; empty if all is done or nothing is known."""
        left, elapsed = self._total - self._done, monotonic() - self._began
        if not left or not self._done or not elapsed:
            return ""
        rate = self._done / elapsed
        seconds = left / rate
        duration = f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
        duration = f"{seconds:.0f} s" if seconds < 100 else duration
        return (
            f" ({100 * self._done / self._total:.0f}% of {self._total / 1e6:,.0f} MB of traces, "
            f"{rate / 1e6:,.1f} MB/s, about {duration} left)"
        )
