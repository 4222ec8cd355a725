"""Progress on stderr: a bar per phase on a terminal, otherwise a line per phase."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from capture.packages import require_packages
from capture.phases import OnPhase

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LABELS = {
    "engine": "starting the engine",
    "warmup": "warming up",
    "unprofiled": "measuring without the profiler",
    "record": "recording",
    "heat": "warming the GPU up (half a minute)",
    "products": "measuring products of matrices",
    "memory": "measuring the memory",
    "communication": "measuring communication among the GPUs",
    "write": "waiting for vLLM to write the traces (can take minutes)",
}


@contextmanager
def progress() -> Iterator[OnPhase]:
    """Yields a function that shows the progress of a capture."""
    if sys.stderr.isatty():
        with _bars() as show:
            yield show
        return
    shown: set[str] = set()

    def show_line(phase: str, _count: int, _total: int) -> None:
        if phase not in shown:
            shown.add(phase)
            click.echo(f"{_LABELS[phase]} ...", err=True)

    yield show_line


@contextmanager
def _bars() -> Iterator[OnPhase]:
    require_packages("rich")
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

        def show_bar(phase: str, count: int, total: int) -> None:
            if phase not in tasks:
                _finish(bars, tasks)
                tasks[phase] = bars.add_task(_LABELS[phase], total=None)
            bars.update(tasks[phase], completed=count, total=total or None)

        yield show_bar
        _finish(bars, tasks)


def _finish(bars: "Progress", tasks: "dict[str, TaskID]") -> None:
    for task in tasks.values():
        bars.update(task, completed=1, total=1)
        bars.stop_task(task)


def warn(message: str) -> None:
    """Prints a warning to stderr."""
    click.echo(f"traceql: warning: {message}", err=True)
