"""traceql experiment run"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capture.cli.console import CaptureCommand, warn

if TYPE_CHECKING:
    from capture.experiment.block import Done
    from capture.experiment.points import Point, WeightBytes
    from capture.experiment.runner import Overview


_MINUTE_S, _HOUR_S = 60, 3600
_SHOWN = 8  # values of a grid in one line
_GRID = {
    "batch": "batch",
    "concurrency": "concurrency",
    "request_rate": "request rate",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
}


class _ProgressLines:
    warn = staticmethod(warn)

    def __init__(self) -> None:
        self._total = 0

    def begin(self, overview: "Overview") -> None:
        self._total = overview.done + overview.left
        for line in _overview_lines(overview):
            click.echo(line, err=True)

    def done(self, done: "Done", left: int, seconds: float) -> None:
        outcome = f"failed: {done.reason}" if done.reason else f"{done.seconds:.1f} s"
        later = f", about {format_duration(seconds)} left" if left else ""
        count = f"[{self._total - left}/{self._total}]"
        click.echo(f"{count} {done.point.path} {done.block.name}: {outcome}{later}", err=True)


def format_duration(seconds: float) -> str:
    """`40 s`, `12 min`, `2 h 10 min`."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE_S)
    return f"{minutes} min" if seconds < _HOUR_S else f"{minutes // 60} h {minutes % 60} min"


def _overview_lines(overview: "Overview") -> Iterator[str]:
    points, engines = overview.points.run, overview.points.engines
    yield (
        f"{format_count(len(points), 'point')} on "
        f"{format_count(len(engines), 'engine configuration')}"
    )
    for engine in engines:
        of_engine = overview.points.of(engine)
        yield f"  {engine.key}: {format_count(len(of_engine), 'point')}, {_grid(of_engine)}"
    by_reason = sorted(overview.points.skipped, key=lambda one: one.reason)
    for reason, group in groupby(by_reason, key=lambda one: one.reason):
        yield f"  left out: {format_count(len(list(group)), 'point')}: {reason}"
    if overview.done:
        yield f"{format_count(overview.done, 'repeat')} done before"
    if not overview.left:
        yield "nothing is left to run"
        return
    starts = format_count(len(overview.blocks), "start")
    yield (
        f"{format_count(overview.left, 'repeat')} to run, in {starts} of a server: about "
        f"{format_duration(overview.seconds)}, if a start takes {overview.start_s:.0f} s and a "
        f"point {overview.point_s:.0f} s"
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


def format_count(count: int, noun: str) -> str:
    """`1 point`, `2 points`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_PRESETS = ("quick", "comprehensive", "scaling")


@click.command("run", cls=CaptureCommand)
@click.argument("plan_file", metavar="[PLAN]", required=False, type=click.Path(path_type=Path))
@click.option("--preset", type=click.Choice(_PRESETS), help="A plan to start from.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override any key of the plan, as repeats=3 or engine.max_model_len=8192.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="KEY:VALUES",
    help='Override keys of the grid: "batch:1,4,16;prompt_tokens:128,1024".',
)
@click.option("--model", help="The model, if there is no plan; short for --set model=NAME.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The folder for the results.  [default: results/NAME of the plan]",
)
@click.option("--resume", is_flag=True, help="Continue with existing results.")
@click.option("--retry-failed", is_flag=True, help="With --resume: run failed repeats again too.")
@click.option("--ray", metavar="ADDRESS", help="Run on the nodes of a Ray cluster.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, without running it.")
@click.pass_obj
def command(
    weight_bytes: "WeightBytes | None",
    plan_file: Path | None,
    preset: str | None,
    settings: tuple[str, ...],
    sweeps: tuple[str, ...],
    model: str | None,
    output: Path | None,
    resume: bool,
    retry_failed: bool,
    ray: str | None,
    dry_run: bool,
) -> None:
    """Measure the points of a plan on vLLM, each several times.

    PLAN is a YAML file. A repeat is a start of the server, which measures all points of its
    configuration. --resume continues an experiment that was stopped.
    """
    if retry_failed and not resume:
        raise click.UsageError("--retry-failed needs --resume")
    from capture.environment import require_packages
    from capture.experiment.plan_document import Override, parse_set, parse_sweep, read_plan
    from capture.experiment.runner import RunOptions, run_experiment

    require_packages("yaml")
    overrides = [Override(("model",), model, "--model")] if model else []
    overrides += parse_sweep(*sweeps)
    overrides += [parse_set(text) for text in settings]
    plan = read_plan(plan_file, preset=preset, overrides=overrides)
    name = plan.name or (plan_file.stem if plan_file else preset or "experiment")
    path = output or Path("results") / name
    options = RunOptions(resume=resume, retry_failed=retry_failed, ray=ray, dry_run=dry_run)
    watcher = _ProgressLines()
    failed = run_experiment(plan, path, options, watcher, weight_bytes=weight_bytes)
    if dry_run:
        return
    if failed:
        count = format_count(failed, "failed repeat")
        click.echo(f"{path}: {count}; reason and log tail are in their run.json")
    else:
        click.echo(f"{path}: complete")
