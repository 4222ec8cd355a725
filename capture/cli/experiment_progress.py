"""What `traceql experiment run` says before, during and after an experiment, on stderr."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from capture.cli.progress import warn

if TYPE_CHECKING:
    from capture.experiment.account import Ahead
    from capture.experiment.block import Done
    from capture.experiment.points import Point, Skipped

_MINUTE_S, _HOUR_S = 60, 3600
_SHOWN = 8  # values of a grid in one line
_GRID = {
    "batch": "batch",
    "concurrency": "concurrency",
    "request_rate": "request rate",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
}


class Told:
    """Counts what is done, and says it in a line each."""

    def __init__(self) -> None:
        self._total = 0

    def ahead(self, ahead: "Ahead") -> None:
        self._total = ahead.done + ahead.left
        for line in _ahead_lines(ahead):
            click.echo(line, err=True)

    def done(self, done: "Done", left: int, seconds: float) -> None:
        what = f"failed: {done.reason}" if done.reason else f"{done.seconds:.1f} s"
        later = f", about {duration(seconds)} left" if left else ""
        place = f"[{self._total - left}/{self._total}]"
        click.echo(f"{place} {done.point.path} {done.block.name}: {what}{later}", err=True)

    def warn(self, message: str) -> None:
        warn(message)


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `2 h 10 min`."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE_S)
    if seconds < _HOUR_S:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _ahead_lines(ahead: "Ahead") -> Iterator[str]:
    points = ahead.points.run
    engines = ahead.points.engines
    yield f"{counted(len(points), 'point')} on {counted(len(engines), 'engine configuration')}"
    for engine in engines:
        of_engine = ahead.points.of(engine)
        yield f"  {engine.key}: {counted(len(of_engine), 'point')}, {_grid(of_engine)}"
    yield from _skipped_lines(ahead.points.skipped)
    if ahead.done:
        yield f"{counted(ahead.done, 'repeat')} done before"
    if not ahead.left:
        yield "nothing is left to run"
        return
    starts = counted(len(ahead.blocks), "start")
    yield (
        f"{counted(ahead.left, 'repeat')} to run, in {starts} of a server: about "
        f"{duration(ahead.seconds)}, if a start takes {ahead.start_s:.0f} s and a point "
        f"{ahead.point_s:.0f} s"
    )


def _grid(points: Sequence["Point"]) -> str:
    """`batch 1, 4; prompt tokens 64`."""
    parts = []
    for name, title in _GRID.items():
        values = sorted({value for p in points if (value := getattr(p, name)) is not None})
        if values:
            shown = ", ".join(map(_number, values[:_SHOWN]))
            more = f" ... {_number(values[-1])}" if len(values) > _SHOWN else ""
            parts.append(f"{title} {shown}{more}")
    return "; ".join(parts)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def _skipped_lines(skipped: Sequence["Skipped"]) -> Iterator[str]:
    """A line for each reason."""
    by_reason = sorted(skipped, key=lambda one: one.reason)
    for reason, group in groupby(by_reason, key=lambda one: one.reason):
        yield f"  left out: {counted(len(list(group)), 'point')}: {reason}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
