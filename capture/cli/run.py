"""traceql capture run"""

from pathlib import Path
from typing import Any

import click

from capture.cli.progress import progress, warn
from capture.cli.report import write_report
from capture.cli.workload_options import workload_options
from capture.models import built_in_models


@click.command("run")
@click.option("--model", required=True, help="Folder or id of a model, or a built-in architecture.")
@click.option(
    "--dummy-weights",
    is_flag=True,
    help=f"Random weights, no download. Built in: {', '.join(built_in_models())}.",
)
@click.option("--tp", type=click.IntRange(1), default=1, help="Tensor-parallel size.")
@click.option("--pp", type=click.IntRange(1), default=1, help="Pipeline-parallel size.")
@click.option("--dp", type=click.IntRange(1), default=1, help="Data-parallel size.")
@click.option("--ep", is_flag=True, help="Expert parallelism (mixture-of-experts models).")
@click.option("--eager", is_flag=True, help="Neither torch.compile nor CUDA graphs.")
@click.option("--dtype", help="As vLLM's --dtype.  [default: the model's]")
@click.option("--max-num-seqs", type=click.IntRange(1), help="Requests in one iteration at most.")
@click.option(
    "--engine-arg",
    "engine_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any argument of vLLM's engine; values as JSON. May be repeated.",
)
@workload_options
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Times through the workload before anything is measured.",
)
@click.option("--skip", type=click.IntRange(0), default=0, help="Iterations before the window.")
@click.option(
    "--steps", type=click.IntRange(1), help="Engine iterations to record.  [default: all]"
)
@click.option(
    "--annotate",
    type=click.Choice(["layers"]),
    help="Name every module in the trace; needs --eager.",
)
@click.option("--stacks", is_flag=True, help="Record Python stacks; slow, and large traces.")
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Record input shapes.")
@click.option("--memory", is_flag=True, help="Record allocations.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The run directory.")
def command(
    model: str,
    dummy_weights: bool,
    engine_args: tuple[str, ...],
    output: Path | None,
    annotate: str | None,
    warmup: int,
    stacks: bool,
    shapes: bool,
    memory: bool,
    **options: Any,
) -> None:
    """Run vLLM with a workload of your choice, and record it.

    The workload runs several times: to warm up, unprofiled, and recorded; the difference of the
    last two is the profiler's overhead, which is printed.
    """
    from capture.engine_options import EngineOptions, ProfilerOptions, parsed_arguments
    from capture.record import RunOptions, record_run

    of_engine = ("tp", "pp", "dp", "ep", "eager", "dtype", "max_num_seqs")
    engine = EngineOptions(
        model,
        dummy_weights,
        **{name: options.pop(name) for name in of_engine},
        more=parsed_arguments(engine_args),
    )
    run = RunOptions(
        engine,
        ProfilerOptions(stacks, shapes, memory),
        annotate_layers=annotate == "layers",
        warmup_passes=warmup,
        **options,
    )
    with progress() as done:
        recorded = record_run(
            run,
            output or Path("runs") / _name(model, engine.tp, engine.pp),
            done=done,
            warn=warn,
        )
    write_report(recorded)


def _name(model: str, tp: int, pp: int) -> str:
    from datetime import datetime

    short = Path(model).name.lower()
    return f"{short}-tp{tp}-pp{pp}-{datetime.now():%Y%m%d-%H%M%S}"
