"""traceql capture run"""

from pathlib import Path
from typing import Any

import click

from capture.cli.console import progress, warn, workload_options, write_report
from capture.models import built_in_models


@click.command("run")
@click.option(
    "--model",
    required=True,
    help="A model folder, a Hugging Face id, or, with --dummy-weights, a built-in architecture.",
)
@click.option(
    "--dummy-weights",
    is_flag=True,
    help="Use random weights; nothing is downloaded for a built-in architecture. Built-in "
    f"architectures: {', '.join(built_in_models())}.",
)
@click.option(
    "--tp", type=click.IntRange(1), default=1, show_default=True, help="Tensor-parallel size."
)
@click.option(
    "--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline-parallel size."
)
@click.option(
    "--dp", type=click.IntRange(1), default=1, show_default=True, help="Data-parallel size."
)
@click.option("--ep", is_flag=True, help="Use expert parallelism (mixture-of-experts models).")
@click.option("--eager", is_flag=True, help="Use neither torch.compile nor CUDA graphs.")
@click.option("--dtype", help="Data type, as in vLLM.  [default: that of the model]")
@click.option(
    "--max-num-seqs", type=click.IntRange(1), help="Maximum number of requests in one step."
)
@click.option(
    "--engine-arg",
    "engine_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set any argument of vLLM's engine. The value is JSON or text. May be repeated.",
)
@workload_options
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="How many times to run the workload before anything is measured.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Steps (engine iterations) to skip before recording.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    help="Steps (engine iterations) to record.  [default: all of the workload]",
)
@click.option(
    "--profiler",
    "tool",
    type=click.Choice(["torch", "nsys", "ncu"]),
    default="torch",
    show_default=True,
    help="PyTorch's profiler, Nsight Systems, or Nsight Compute, which counts the bytes and FLOPs "
    "of each kernel instead of recording a timeline. The last two must be on PATH.",
)
@click.option(
    "--annotate",
    type=click.Choice(["layers"]),
    help="Add a named range for every module of the model to the trace; needs --eager.",
)
@click.option(
    "--stacks", is_flag=True, help="Record Python stacks; this is slow and makes traces large."
)
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Record input shapes.")
@click.option("--memory", is_flag=True, help="Record memory allocations.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The run directory to create.  [default: runs/MODEL-tpN-ppN-DATE-TIME]",
)
def command(
    model: str,
    dummy_weights: bool,
    engine_args: tuple[str, ...],
    output: Path | None,
    annotate: str | None,
    warmup: int,
    tool: str,
    stacks: bool,
    shapes: bool,
    memory: bool,
    **options: Any,
) -> None:
    """Start vLLM, run a workload and record it.

    Example: traceql capture run --model qwen3-8b --dummy-weights -o runs/test

    The same engine runs the workload to warm up, then without the profiler, then with it. The
    overhead of the profiler, that is, the difference between the last two, is printed.
    """
    from capture.engine_options import EngineOptions, parsed_arguments
    from capture.profilers import ProfilerOptions
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
        tool,
        ProfilerOptions(stacks, shapes, memory),
        annotate_layers=annotate == "layers",
        warmup_passes=warmup,
        **options,
    )
    with progress() as on_phase:
        recorded = record_run(
            run,
            output or Path("runs") / _run_name(model, engine.tp, engine.pp),
            on_phase=on_phase,
            warn=warn,
        )
    write_report(recorded)


def _run_name(model: str, tp: int, pp: int) -> str:
    from datetime import datetime

    short = Path(model).name.lower()
    return f"{short}-tp{tp}-pp{pp}-{datetime.now():%Y%m%d-%H%M%S}"
