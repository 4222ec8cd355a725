"""traceql experiment run"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from capture.cli.refusals import CaptureCommand

if TYPE_CHECKING:
    from capture.experiment.refusal import WeightBytes

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
@click.option("--resume", is_flag=True, help="Go on with results that are there.")
@click.option("--retry-failed", is_flag=True, help="With --resume: run failed repeats again too.")
@click.option("--ray", metavar="ADDRESS", help="Run on the nodes of a Ray cluster.")
@click.option("--dry-run", is_flag=True, help="Show what would be run, and end.")
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
    configuration. Whatever stops the experiment, --resume goes on where it was.
    """
    if retry_failed and not resume:
        raise click.UsageError("--retry-failed needs --resume")
    from capture.cli.experiment_progress import Told, counted
    from capture.experiment.account import Watcher
    from capture.experiment.document import read_plan
    from capture.experiment.overrides import Override, parsed_set, parsed_sweep
    from capture.experiment.runner import Choice, run_experiment
    from capture.packages import require_packages

    require_packages("yaml")
    overrides = [Override(("model",), model, "--model")] if model else []
    overrides += parsed_sweep(*sweeps)
    overrides += [parsed_set(text) for text in settings]
    plan = read_plan(plan_file, preset=preset, overrides=overrides)
    name = plan.name or (plan_file.stem if plan_file else preset or "experiment")
    path = output or Path("results") / name
    told = Told()
    choice = Choice(resume=resume, retry_failed=retry_failed, ray=ray, dry_run=dry_run)
    watcher = Watcher(told.ahead, told.done, told.warn)
    failed = run_experiment(plan, path, choice, watcher, weight_bytes=weight_bytes)
    if dry_run:
        return
    if failed:
        click.echo(
            f"{path}: {counted(failed, 'failed repeat')}; reason and log tail are in their run.json"
        )
    else:
        click.echo(f"{path}: complete")
