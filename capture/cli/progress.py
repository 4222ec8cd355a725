"""A bar per phase on stderr for terminals, else a line per phase."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LABELS = {
    "engine": "starting the engine",
    "warmup": "warming up",
    "baseline": "measuring without the profiler",
    "record": "recording",
    "write": "vLLM writes the traces (can take minutes)",
}


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields what a run calls with its phase, how many of it and of how many."""
    if sys.stderr.isatty():
        with _bars() as done:
            yield done
        return
    told: set[str] = set()

    def tell(phase: str, _count: int, _total: int) -> None:
        if phase not in told:
            told.add(phase)
            click.echo(f"{_LABELS[phase]} ...", err=True)

    yield tell


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def done(phase: str, count: int, total: int) -> None:
            if phase not in tasks:
                _finish(bars, tasks)
                tasks[phase] = bars.add_task(_LABELS[phase], total=None)
            bars.update(tasks[phase], completed=count, total=total or None)

        yield done
        _finish(bars, tasks)


def _finish(bars: "Progress", tasks: "dict[str, TaskID]") -> None:
    for task in tasks.values():
        bars.update(task, completed=1, total=1)
        bars.stop_task(task)


def warn(message: str) -> None:
    """Tells what the user should know, and goes on."""
    click.echo(f"traceql: warning: {message}", err=True)
