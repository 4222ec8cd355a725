"""`traceql capture`: each command calls one function of the library and prints its result."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from capture.cli.console import (
    CaptureCommand,
    progress,
    warn,
    workload_options,
    write_latencies,
    write_report,
)
from capture.models import built_in_models

_COUNT = click.IntRange(1)
_PATH = click.Path(path_type=Path)


class _Group(CaptureCommand, click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    "capture",
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
def command() -> None:
    """Record vLLM with torch.profiler into a run directory.

    A run directory has the traces of all ranks and what is needed to interpret them: the
    configuration, the workload, latencies and GPU telemetry. Load it with traceql load.

    To record any other PyTorch program, use `with capture.profile("runs/name"):` in Python.
    """


@command.command("run", short_help="Start vLLM, run a workload and record it.")
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
@click.option("--tp", type=_COUNT, default=1, help="Tensor-parallel size.")
@click.option("--pp", type=_COUNT, default=1, help="Pipeline-parallel size.")
@click.option("--dp", type=_COUNT, default=1, help="Data-parallel size.")
@click.option("--ep", is_flag=True, help="Use expert parallelism (mixture-of-experts models).")
@click.option("--eager", is_flag=True, help="Use neither torch.compile nor CUDA graphs.")
@click.option("--dtype", help="Data type, as in vLLM.  [default: that of the model]")
@click.option("--max-num-seqs", type=_COUNT, help="Maximum number of requests in one step.")
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
    help="How many times to run the workload before anything is measured.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    help="Steps (engine iterations) to skip before recording.",
)
@click.option(
    "--steps",
    type=_COUNT,
    help="Steps (engine iterations) to record.  [default: all of the workload]",
)
@click.option(
    "--profiler",
    "tool",
    type=click.Choice(["torch", "nsys", "ncu"]),
    default="torch",
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
@click.option("--shapes/--no-shapes", default=True, help="Record input shapes.")
@click.option("--memory", is_flag=True, help="Record memory allocations.")
@click.option(
    "-o",
    "--output",
    type=_PATH,
    help="The run directory to create.  [default: runs/MODEL-tpN-ppN-DATE-TIME]",
)
def run_command(
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
    difference between the last two is printed as the overhead of the profiler.
    """
    from capture.engine_options import EngineOptions, parse_engine_args
    from capture.profilers import ProfilerOptions
    from capture.record import RunOptions, record_run

    of_engine = ("tp", "pp", "dp", "ep", "eager", "dtype", "max_num_seqs")
    sizes = {name: options.pop(name) for name in of_engine}
    engine = EngineOptions(model, dummy_weights, **sizes, more=parse_engine_args(engine_args))
    run = RunOptions(
        engine,
        tool,
        ProfilerOptions(stacks, shapes, memory),
        annotate_layers=annotate == "layers",
        warmup_passes=warmup,
        **options,
    )
    path = output or _new_run(f"{Path(model).name.lower()}-tp{engine.tp}-pp{engine.pp}")
    with progress() as on_phase:
        recorded = record_run(run, path, on_phase=on_phase, warn=warn)
    write_report(recorded)


def _new_run(prefix: str) -> Path:
    return Path("runs") / f"{prefix}-{datetime.now():%Y%m%d-%H%M%S}"


@command.command("attach", short_help="Record a running vLLM server for some seconds.")
@click.argument("url")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=2.0,
    help="Seconds to record. Writing the traces takes several times as long.",
)
@click.option(
    "--load",
    is_flag=True,
    help="Send the requests of a workload repeatedly during the recording.",
)
@workload_options
@click.option(
    "--traces",
    type=_PATH,
    help="The server's torch_profiler_dir.  [default: from the command line of the server, if it "
    "runs on this machine]",
)
@click.option(
    "-o",
    "--output",
    type=_PATH,
    help="The run directory to create.  [default: runs/attach-DATE-TIME]",
)
def attach_command(
    url: str,
    seconds: float,
    load: bool,
    traces: Path | None,
    output: Path | None,
    prompts_file: Path | None,
    **options: Any,
) -> None:
    """Record a running vLLM server for some seconds.

    Example: traceql capture attach http://localhost:8000 -o runs/live

    The server must have been started with --profiler-config. Without --load, only requests of the
    server's users are recorded, and the options of the workload (--mix to --prompts-file) have no
    effect.
    """
    from capture.attach import attach
    from capture.workload import KNOWN_TOKENS, file_workload, random_workload

    workload = None
    if load and prompts_file:
        tokens, concurrency = options["output_tokens"], options["concurrency"]
        workload = file_workload(prompts_file, output_tokens=tokens, concurrency=concurrency)
    elif load:
        workload = random_workload(vocab_size=KNOWN_TOKENS, **options)
    path = output or _new_run("attach")
    with progress() as on_phase:
        recording = attach(
            url,
            path,
            seconds=seconds,
            workload=workload,
            traces=traces,
            on_phase=on_phase,
            warn=warn,
        )
        attached = asyncio.run(recording)
    if attached.traces_missing:
        raise click.ClickException(attached.traces_missing)
    click.echo(f"{attached.path}: {len(attached.facts['ranks'])} ranks, recorded for {seconds:g} s")
    if workload:
        write_latencies(attached.path)
    click.echo(f"next: traceql load {attached.path} -o run.duckdb")
