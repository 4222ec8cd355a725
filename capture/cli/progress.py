"""A bar per phase on stderr for terminals, else a line per phase."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bars:
        tasks: dict[str, int] = {}

        def done(phase: str, count: int, total: int) -> None:
            if phase not in tasks:
                _finish(bars, tasks)
                tasks[phase] = bars.add_task(_LABELS[phase], total=None)
            bars.update(tasks[phase], completed=count, total=total or None)

        yield done
        _finish(bars, tasks)


def _finish(bars: object, tasks: dict[str, int]) -> None:
    from rich.progress import Progress, TaskID

    assert isinstance(bars, Progress)
    for task in tasks.values():
        total = bars.tasks[task].total or 1
        bars.update(TaskID(task), completed=total, total=total)
        bars.stop_task(TaskID(task))
